"""What requests and answers look like; the same file names as the routes."""
