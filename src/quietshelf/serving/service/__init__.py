"""The same loop over HTTP, with time, crashes and many clients: requests in, offers out, all of it in one database."""
