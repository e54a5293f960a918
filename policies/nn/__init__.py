"""Networks behind one interface, with hand-written gradients for MLPs."""
