"""What is shipped beside the code: written, checked and built. See packaging/README.md."""
