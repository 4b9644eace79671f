"""What Alembic runs: the steps, on the connection that the store hands over."""

from alembic import context

from quietshelf.serving.service.database.schema import metadata

if hasattr(context, "config"):  # otherwise somebody imported this file, and there is nothing to migrate
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
