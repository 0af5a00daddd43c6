"""What is stored of batches: chunks and lines."""
