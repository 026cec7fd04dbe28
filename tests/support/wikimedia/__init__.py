"""A small Wikimedia on loopback: the same questions, answers, habits and faults as the real one's."""

from wikimedia.server import Asked, Wikimedia
from wikimedia.world import World

__all__ = ["Asked", "Wikimedia", "World"]
