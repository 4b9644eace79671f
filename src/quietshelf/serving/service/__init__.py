"""The loop as an HTTP service, with time, crashes and many clients: requests in, offers out, one database."""
