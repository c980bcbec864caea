"""API reference: Swagger UI over the interface description, from files of this package."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from league.web.layout import PageRoute
from league.web.templating import render

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/docs")
async def show() -> HTMLResponse:
    """Show every call and every body, and let a reader try calls."""
    return HTMLResponse(render("docs.html"))
