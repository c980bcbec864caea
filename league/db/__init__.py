"""The relational store: tables, sessions, schema versions, locks. SQLite and PostgreSQL behave alike."""
