"""Call-signs: memorable names for commanders.

A call-sign depends only on the environment and the player's identity, so every process computes the same one. There are
64 x 64 x 99 of them. `free_call_sign` resolves collisions.
"""

from collections.abc import Container
from itertools import count

from arena.seeding import derive

ADJECTIVES = (  # noqa: SIM905 - a few lines of words read better than 64
    "Amber Arctic Ardent Ashen Azure Brazen Bright Bronze Cobalt Copper Coral Crimson Dauntless Distant Dusky Eager "
    "Ebony Emerald Fabled Fearless Fervent Frozen Gallant Gilded Golden Granite Hidden Hollow Indigo Iron Ivory Jade "
    "Keen Lasting Lofty Lucid Lunar Marble Mellow Midnight Nimble Northern Obsidian Onyx Patient Pewter Quiet Rapid "
    "Restless Royal Russet Sable Scarlet Silent Silver Solar Solemn Stalwart Steadfast Stormy Swift Tawny Velvet Vivid"
).split()

NOUNS = (  # noqa: SIM905 - a few lines of words read better than 64
    "Anvil Arrow Badger Banner Bastion Beacon Bison Buckler Bulwark Caravel Catapult Citadel Comet Condor Corsair "
    "Cutlass Dagger Drake Ember Falcon Ferret Flint Fortress Gale Galleon Gauntlet Glacier Halberd Hammer Harrier "
    "Hawk Heron Hornet Hurricane Jaguar Javelin Kestrel Lance Lancer Lantern Lynx Mantis Marten Meteor Osprey Otter "
    "Panther Pike Puma Rampart Rapier Raven Ridge Sabre Sentinel Shield Sparrow Spear Talon Tempest Thistle Thunder "
    "Viper Wolverine"
).split()

NUMBERS = 99


def call_sign(environment: str, identity: str) -> str:
    """Return the call-sign of a player, such as "Crimson Halberd 7".

    Args:
        environment: Name of the environment.
        identity: Unique identity of the player: the SHA-256 of its checkpoint, or its identifier.
    """
    choice = derive(0, "call-sign", environment, identity)
    choice, number = divmod(choice, NUMBERS)
    choice, noun = divmod(choice, len(NOUNS))
    return f"{ADJECTIVES[choice % len(ADJECTIVES)]} {NOUNS[noun]} {number + 1}"


def free_call_sign(environment: str, identity: str, taken: Container[str]) -> str:
    """Return a player's call-sign, with the number increased until it is not taken.

    Args:
        environment: Name of the environment.
        identity: See `call_sign`.
        taken: Call-signs of other players.

    Returns:
        `call_sign(environment, identity)` if free, otherwise the same two words with the next free number.
    """
    first = call_sign(environment, identity)
    if first not in taken:
        return first
    words, number = first.rsplit(" ", 1)
    return next(name for n in count(int(number) + 1) if (name := f"{words} {n}") not in taken)
