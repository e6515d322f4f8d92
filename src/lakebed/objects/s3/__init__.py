"""What obstore leaves to us on S3: exact keys, listings of them, multipart uploads by id."""
