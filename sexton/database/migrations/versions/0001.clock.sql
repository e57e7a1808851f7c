-- What comes before the tables (sexton/database/tables): the clock is the default of some of their columns.
DO $$ BEGIN
    IF (SELECT nspowner FROM pg_namespace WHERE nspname = 'sexton')
        <> (SELECT oid FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'schema sexton belongs to another role than %, which could change what is created in it',
            current_user;
    END IF;
END $$;
-- No function or operator of another schema is found by its name alone, as one in public would be.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Return the time of the deployment, in whole milliseconds.
CREATE FUNCTION sexton.now() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN date_trunc('milliseconds', clock_timestamp())
        + (SELECT offset_seconds FROM sexton.clock) * interval '1 second';
END $$;
