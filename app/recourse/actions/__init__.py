"""What one person can change, and how a change is put into words."""
