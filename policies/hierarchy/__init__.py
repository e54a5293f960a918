"""Skills and the policies that command them."""
