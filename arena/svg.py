"""What all charts share, whatever they show: colours, lettering, numbers and the sheet they are drawn on."""

INK, PALE, LINE = "#333", "#ddd", "#1f6fb2"

STYLE = (
    f"text{{font:11px system-ui,sans-serif;fill:{INK}}}.title{{font-weight:600;font-size:12px}}"
    f".line{{fill:none;stroke:{LINE};stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round}}"
    f".grid{{stroke:{PALE};stroke-width:1}}"
)


def document(width: int, height: int, style: str, body: str) -> str:
    """Return a picture on white, that many pixels large.

    Args:
        width: In pixels.
        height: In pixels.
        style: CSS beside `STYLE`.
        body: Elements of SVG.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<style>{STYLE}{style}</style><rect width="{width}" height="{height}" fill="#fff"/>{body}</svg>'
    )


def short(value: float) -> str:
    """A number in a few characters."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.3g}"
