"""A folder as an object store: names, locks, journal and files. All of it is plain blocking code for worker threads."""
