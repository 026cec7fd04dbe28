"""The network: images in, vectors of unit length out."""
