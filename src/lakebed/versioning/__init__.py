"""Changes of a branch's HEAD, and the view of a ref that readers get."""
