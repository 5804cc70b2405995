"""The reader's time zone, as the browser names it in a cookie; without scripts it is the server's."""

from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from fastapi import Request

COOKIE = "rheo_zone"


def zone_of(request: Request) -> tzinfo | None:
    """The zone in which the reader's days begin; None for the server's, where the browser names none."""
    name = request.cookies.get(COOKIE, "")
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):  # no such zone, no name of a zone, a folder of zones
        return None


def clock(request: Request, moment: datetime) -> str:
    """A moment as the reader's clock shows it."""
    there = moment.astimezone(zone_of(request))
    return f"{there.day} {there:%b %Y %H:%M}"
