"""Bytes on a connection -> requests, checked and bounded -> replies."""
