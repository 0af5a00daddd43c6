"""What runs in child processes, for requests and jobs alike."""
