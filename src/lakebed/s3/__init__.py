"""The S3 endpoint: `s3://<repository>/<ref>/<path>` for every tool that speaks S3."""
