"""The peers: what installs them, and the scripts that measure them."""
