"""Static copy of the dashboard: pages, styles, scripts and data as files that a browser opens without a server.

Pages come from a function that fetches an address, so that nothing here knows the application.
"""
