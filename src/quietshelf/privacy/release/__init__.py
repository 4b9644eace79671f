"""Statistics -> private releases, one mechanism a file; public geometry; the curators that bind them."""
