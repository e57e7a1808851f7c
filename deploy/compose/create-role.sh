#!/bin/sh
# Run once by the image of PostgreSQL, for an empty data directory: Sexton's role is no superuser, owns its database,
# and creates the logins that read live views.
set -eu
psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres --set password="$ROLE_PASSWORD" <<'SQL'
CREATE ROLE sexton LOGIN CREATEROLE PASSWORD :'password';
CREATE DATABASE sexton OWNER sexton;
SQL
