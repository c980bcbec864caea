"""Database access: models, sessions, transactions, locks and migrations; SQLite and PostgreSQL behave the same."""
