"""Records of repositories, branches, tags and commits, and what can be asked of them."""
