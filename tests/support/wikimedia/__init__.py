"""A small Wikimedia on loopback: the same questions, answers, habits and faults as the real one's."""

from wikimedia.places import Places
from wikimedia.server import ReceivedRequest, Wikimedia
from wikimedia.world import World

__all__ = ["Places", "ReceivedRequest", "Wikimedia", "World"]
