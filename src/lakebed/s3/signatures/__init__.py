"""Who sent a request, and is its body what they signed: AWS signatures versions 4 and 2."""
