#!/bin/sh
# Run once by the image of PostgreSQL, for an empty data directory: Sexton's role is no superuser, and owns its database.
set -eu
psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres --set password="$ROLE_PASSWORD" <<'SQL'
CREATE ROLE sexton LOGIN PASSWORD :'password';
CREATE DATABASE sexton OWNER sexton;
SQL
