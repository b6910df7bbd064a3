-- pawl's guard for PostgreSQL, version 3. Run it in one transaction, as a role
-- that may create a schema; running it again changes nothing. Then let each role
-- that writes under the guard use it:
--
--   SELECT pawl.admit('writer');
--
-- claim once per lease, before the first read, and begin every guarded
-- transaction with the other:
--
--   SELECT pawl.claim('orders/7', 'cell', 42);   -- resource, cell, token
--   SELECT pawl.enter('orders/7', 'cell', 42);
--
-- SQLSTATEs: FE001 stale token; FE002 no fence; FE003 the fence of another
-- transaction; FE004 the fence of another resource; FE005 claim first; FE006 the
-- token of another cell; FE007 malformed; FE008 offset out of turn; FE009 enter
-- and not reenter.

DO $pawl$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock(-4611686018427387904);
  IF pg_catalog.to_regnamespace('pawl') IS NULL THEN
    CREATE SCHEMA pawl;
  END IF;
  -- What somebody else planted here would stay theirs, to be changed afterwards.
  IF EXISTS (SELECT 1 FROM pg_catalog.pg_namespace n
      LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid LEFT JOIN pg_catalog.pg_proc p ON p.pronamespace = n.oid
      WHERE n.nspname = 'pawl' AND EXISTS (SELECT 1 FROM (VALUES (n.nspowner), (c.relowner), (p.proowner)) o(role)
        WHERE o.role <> (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user))) THEN
    RAISE EXCEPTION 'pawl guard: the schema pawl, or something in it, belongs to another role than %', current_user
      USING ERRCODE = '42501', HINT = 'Run this as that role (SET ROLE) if it is the guard''s, and drop what is not.';
  END IF;
  IF pg_catalog.to_regclass('pawl.guard') IS NOT NULL AND coalesce(pg_catalog.substring(
      pg_catalog.obj_description(pg_catalog.to_regclass('pawl.guard'), 'pg_class'), 'version ([0-9]+)')::int, 0)
      > 3 THEN
    RAISE EXCEPTION 'pawl guard: a newer version is installed than this one';
  END IF;
END $pawl$;

CREATE TABLE IF NOT EXISTS pawl.guard (
  resource text COLLATE "C" NOT NULL CONSTRAINT guard_pkey PRIMARY KEY,
  cell     text COLLATE "C" NOT NULL CHECK (cell <> ''),
  token    bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991),
  raised   timestamptz NOT NULL DEFAULT pg_catalog.now(),
  watched  boolean NOT NULL DEFAULT true
) WITH (fillfactor = 50);
COMMENT ON TABLE pawl.guard IS 'pawl guard, version 3: the highest fencing token that each resource has seen';
COMMENT ON COLUMN pawl.guard.watched IS 'whether enter must leave a setting for the triggers of enforced tables';

CREATE TABLE IF NOT EXISTS pawl.guard_offset (
  resource text COLLATE "C" NOT NULL,
  key      text COLLATE "C" NOT NULL CHECK (key <> ''),
  seq      bigint NOT NULL CHECK (seq >= 0),
  CONSTRAINT guard_offset_pkey PRIMARY KEY (resource, key)
) WITH (fillfactor = 50);
COMMENT ON TABLE pawl.guard_offset IS 'pawl guard: how far numbered work has come';

-- A mark never goes back and is never deleted: that would let an old holder in.
CREATE OR REPLACE FUNCTION pawl.keep_mark() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $pawl$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.token >= OLD.token AND NEW.cell = OLD.cell AND NEW.resource = OLD.resource THEN
      RETURN NEW;
    END IF;
    RAISE EXCEPTION 'pawl.guard: a mark never goes back' USING ERRCODE = '23514';
  END IF;
  RAISE EXCEPTION 'pawl.guard: a mark is never deleted' USING ERRCODE = '23514';
END $pawl$;
-- What is there already and on is left alone: to touch it would wait for every
-- transaction that is inside the guard, and everybody else behind that.
DO $pawl$
DECLARE
  missing text[];
BEGIN
  FOREACH missing SLICE 1 IN ARRAY ARRAY[
      ['ratchet', 'UPDATE', 'ROW'], ['keep', 'DELETE', 'ROW'], ['keep_all', 'TRUNCATE', 'STATEMENT']] LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t
        WHERE t.tgrelid = 'pawl.guard'::pg_catalog.regclass AND t.tgname = missing[1]) THEN
      EXECUTE pg_catalog.format('CREATE TRIGGER %I BEFORE %s ON pawl.guard FOR EACH %s EXECUTE FUNCTION pawl.keep_mark()',
        missing[1], missing[2], missing[3]);
    ELSIF EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t
        WHERE t.tgrelid = 'pawl.guard'::pg_catalog.regclass AND t.tgname = missing[1] AND t.tgenabled NOT IN ('O', 'A')) THEN
      EXECUTE pg_catalog.format('ALTER TABLE pawl.guard ENABLE TRIGGER %I', missing[1]);
    END IF;
  END LOOP;
END $pawl$;

-- The advisory lock of a resource, always negative; see pawl.enter.
CREATE OR REPLACE FUNCTION pawl.lock_key(resource text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $pawl$
  SELECT pg_catalog.hashtextextended(resource COLLATE pg_catalog."C", 1885435756)
    OPERATOR(pg_catalog.|) '-9223372036854775808'::bigint
$pawl$;

-- enter makes the transaction one under this fence, or raises. Everybody under
-- the mark holds the resource's lock shared until the transaction has ended;
-- whoever raises the mark holds it alone, and so waits for all who are under the
-- old one. A shared lock on the mark's row would do the same, but costs a write
-- in each transaction, and a stream of sharers starves whoever waits to raise.
--
-- It relies on a look at the mark that is younger than the lock. READ COMMITTED
-- takes a snapshot for each statement below. Under the stricter levels there is
-- one, older than the lock: there the row is locked as well, which fails with
-- 40001 where it was raised in between; and a mark is raised only where nothing
-- at all was committed in between, since what a lower token did must be seen
-- afterwards.
CREATE OR REPLACE FUNCTION pawl.enter(resource text, cell text, token bigint, wait_ms integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $pawl$
#variable_conflict error
DECLARE
  fresh   boolean := current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');
  key     bigint := pawl.lock_key(resource);
  waits   text;
  raises  boolean;
  got     boolean;
  since   bigint;
  now     bigint;
  mark    record;
BEGIN
  IF token IS NULL OR token = 0 THEN
    RAISE EXCEPTION 'pawl guard: no fencing token for "%"', resource USING ERRCODE = 'FE002';
  END IF;
  IF token NOT BETWEEN 1 AND 9007199254740991 OR coalesce(resource, '') = '' OR coalesce(cell, '') = ''
      OR octet_length(resource) > 518 OR octet_length(cell) > 255 THEN
    RAISE EXCEPTION 'pawl guard: malformed fence for "%": token %, cell "%"', resource, token, cell
      USING ERRCODE = 'FE007';
  END IF;

  SELECT g.cell, g.token INTO mark FROM pawl.guard g WHERE g.resource = enter.resource;
  raises := NOT FOUND OR mark.token < token;
  -- A mark only rises and keeps its cell, so a refusal needs no lock.
  IF FOUND AND (mark.cell <> cell OR mark.token > token) THEN
    PERFORM pawl.refuse(resource, cell, token, mark.cell, mark.token);
  END IF;
  IF raises AND NOT fresh AND pg_current_xact_id_if_assigned() IS NOT NULL THEN
    -- Its number is older than now, so what was committed since cannot be told.
    RAISE EXCEPTION 'pawl guard: "%" must be claimed before this transaction, or entered before it writes', resource
      USING ERRCODE = 'FE005';
  END IF;

  IF raises THEN
    got := pg_try_advisory_xact_lock(key);
  ELSE
    got := pg_try_advisory_xact_lock_shared(key);
  END IF;
  IF NOT got THEN
    waits := current_setting('lock_timeout');
    IF wait_ms IS NOT NULL THEN
      PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
    ELSIF waits = '0' THEN
      PERFORM set_config('lock_timeout', '10s', true);
    END IF;
    IF raises THEN
      PERFORM pg_advisory_xact_lock(key);
    ELSE
      PERFORM pg_advisory_xact_lock_shared(key);
    END IF;
    PERFORM set_config('lock_timeout', waits, true);
  END IF;

  IF raises AND NOT fresh THEN
    since := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    now   := pg_current_xact_id()::text::bigint;
    IF now - since > 1000 OR EXISTS (
        SELECT 1 FROM (SELECT pg_snapshot_xip(pg_current_snapshot()) UNION ALL
            SELECT n::text::xid8 FROM generate_series(since, now - 1) n) other(xid)
          WHERE pg_xact_status(other.xid) = 'committed') THEN
      RAISE EXCEPTION 'pawl guard: the snapshot is older than what a holder of "%" may have done', resource
        USING ERRCODE = '40001', HINT = 'Repeat the transaction, or claim before it.';
    END IF;
  END IF;
  IF raises THEN
    -- Nothing waits for this one: it tells pawl.blockers which token raises.
    PERFORM pg_advisory_xact_lock_shared(4611686018427387904 | token);
    -- Whether anything is enforced cannot change from here on, see pawl.watch.
    LOCK TABLE pawl.guard IN ROW EXCLUSIVE MODE;
    INSERT INTO pawl.guard AS g (resource, cell, token, watched)
      VALUES (enter.resource, enter.cell, enter.token, NOT fresh OR EXISTS (
        SELECT 1 FROM pg_trigger t WHERE t.tgfoid = 'pawl.guard_rows()'::regprocedure
          OR t.tgfoid = 'pawl.guard_statement()'::regprocedure
            AND t.tgargs = convert_to(enter.resource, getdatabaseencoding()) || '\x00'::bytea))
      ON CONFLICT ON CONSTRAINT guard_pkey DO UPDATE
      SET token = excluded.token, watched = excluded.watched, raised = pg_catalog.now()
      WHERE g.token < excluded.token AND g.cell = excluded.cell;
  END IF;
  IF fresh THEN
    SELECT g.cell, g.token, g.watched INTO mark FROM pawl.guard g WHERE g.resource = enter.resource;
  ELSE
    SELECT g.cell, g.token, g.watched INTO mark FROM pawl.guard g WHERE g.resource = enter.resource FOR SHARE;
  END IF;
  IF NOT FOUND OR mark.token < token AND mark.cell = cell THEN
    RAISE EXCEPTION 'pawl guard: the mark of "%" is not what was written: something else changes pawl.guard', resource
      USING ERRCODE = '55000';
  ELSIF mark.cell <> cell OR mark.token <> token THEN
    PERFORM pawl.refuse(resource, cell, token, mark.cell, mark.token);
  END IF;

  IF raises OR mark.watched THEN
    PERFORM pawl.pass(resource);
  END IF;
END $pawl$;

-- reenter is enter, three times as fast, for who is likely under the mark
-- already: FE009 says that it may not be so, and to enter. It takes the lock
-- before it has looked, which two that must raise the mark could not both do
-- without locking each other out. It names the schema of all it uses, operators
-- too, instead of setting search_path, and needs no right but to look.
CREATE OR REPLACE FUNCTION pawl.reenter(resource text, cell text, token bigint, wait_ms integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $pawl$
BEGIN
  IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.<>) 'read committed' THEN
    PERFORM pawl.enter(reenter.resource, reenter.cell, reenter.token, reenter.wait_ms);
    RETURN;
  END IF;
  IF pg_catalog.pg_try_advisory_xact_lock_shared(pawl.lock_key(reenter.resource)) THEN
    PERFORM CASE WHEN NOT g.watched THEN NULL
        WHEN pg_catalog.current_setting('pawl.fence', true) OPERATOR(pg_catalog.<>) '' THEN pawl.pass(reenter.resource)
        ELSE pg_catalog.set_config('pawl.fence',
          ARRAY[pg_catalog.pg_current_xact_id()::pg_catalog.text, reenter.resource]::pg_catalog.text, true) END
      FROM pawl.guard g
      WHERE g.resource OPERATOR(pg_catalog.=) reenter.resource AND g.cell OPERATOR(pg_catalog.=) reenter.cell
        AND g.token OPERATOR(pg_catalog.=) reenter.token;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  RAISE EXCEPTION 'pawl guard: enter "%" with the whole check', reenter.resource USING ERRCODE = 'FE009';
END $pawl$;

-- claim is enter in a transaction of its own, before anything is read. When it has
-- committed, the mark is as safe as this server and its synchronous standbys can
-- make it, whatever less the session is content with; and each time, since the mark
-- that is found may be one whose commit was never waited for to its end (its session
-- was ended, or the server, before the standby had it). For that the transaction
-- writes a message to the log, which says nothing, instead of the row, which
-- transactions of this very holder may have locked.
CREATE OR REPLACE FUNCTION pawl.claim(resource text, cell text, token bigint, wait_ms integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $pawl$
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION 'pawl guard: "%" cannot be claimed on a standby', resource USING ERRCODE = '25006';
  END IF;
  PERFORM pawl.enter(resource, cell, token, wait_ms);
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM pg_logical_emit_message(true, 'pawl', '');
END $pawl$;

-- pass leaves what the triggers look at. With the transaction's number in it, a
-- setting that outlived its transaction in a pooled connection is known for what
-- it is.
CREATE OR REPLACE FUNCTION pawl.pass(resource text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $pawl$
DECLARE
  me     text := pg_current_xact_id()::text;
  passed text[] := nullif(current_setting('pawl.fence', true), '')::text[];
BEGIN
  IF passed[1] IS DISTINCT FROM me THEN
    passed := ARRAY[me, pass.resource];
  ELSIF pass.resource <> ALL (passed[2:]) THEN
    passed := passed || pass.resource;
  END IF;
  RETURN set_config('pawl.fence', passed::text, true);
END $pawl$;

CREATE OR REPLACE FUNCTION pawl.refuse(resource text, cell text, token bigint, seen_cell text, seen_token bigint)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $pawl$
BEGIN
  IF seen_cell <> cell THEN
    RAISE EXCEPTION 'pawl guard: "%" is held to cell "%", shown was cell "%"', resource, seen_cell, cell
      USING ERRCODE = 'FE006', DETAIL = format('seen %s of cell %s', seen_token, seen_cell);
  END IF;
  RAISE EXCEPTION 'pawl guard: stale fencing token % for "%", which has seen %', token, resource, seen_token
    USING ERRCODE = 'FE001', DETAIL = format('seen %s of cell %s', seen_token, seen_cell);
END $pawl$;

-- held is enter for work of one statement, after a claim: it never waits for
-- older work, which the statement, begun before, would not see.
--   UPDATE t SET … WHERE id = 7 AND (SELECT pawl.held('orders/7', 'cell', 42));
CREATE OR REPLACE FUNCTION pawl.held(resource text, cell text, token bigint, wait_ms integer DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $pawl$
BEGIN
  IF token BETWEEN 1 AND 9007199254740991 AND NOT EXISTS (
      SELECT 1 FROM pawl.guard g
        WHERE g.resource = held.resource AND (g.token >= held.token OR g.cell <> held.cell)) THEN
    RAISE EXCEPTION 'pawl guard: "%" was not claimed with token %', resource, token USING ERRCODE = 'FE005';
  END IF;
  PERFORM pawl.enter(resource, cell, token, wait_ms);
  RETURN true;
END $pawl$;

-- move_offset enters and moves an offset from prev to next.
CREATE OR REPLACE FUNCTION pawl.move_offset(
  resource text, cell text, token bigint, key text, prev bigint, next bigint, wait_ms integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $pawl$
DECLARE
  at bigint;
BEGIN
  IF coalesce(move_offset.key, '') = '' THEN
    RAISE EXCEPTION 'pawl guard: no offset key' USING ERRCODE = 'FE002';
  ELSIF (prev >= 0 AND next > prev) IS NOT TRUE THEN
    RAISE EXCEPTION 'pawl guard: malformed offset, from % to %', prev, next USING ERRCODE = 'FE007';
  END IF;
  PERFORM pawl.enter(move_offset.resource, cell, token, wait_ms);
  UPDATE pawl.guard_offset o SET seq = next
    WHERE o.resource = move_offset.resource AND o.key = move_offset.key AND o.seq = prev;
  IF FOUND THEN
    RETURN;
  END IF;
  IF prev = 0 THEN
    INSERT INTO pawl.guard_offset VALUES (move_offset.resource, move_offset.key, next)
      ON CONFLICT ON CONSTRAINT guard_offset_pkey DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  SELECT o.seq INTO at FROM pawl.guard_offset o
    WHERE o.resource = move_offset.resource AND o.key = move_offset.key;
  RAISE EXCEPTION 'pawl guard: offset "%" of "%" stands at %, not at %',
      move_offset.key, move_offset.resource, coalesce(at, 0), prev
    USING ERRCODE = 'FE008', DETAIL = format('at %s', coalesce(at, 0));
END $pawl$;

-- blockers lists who is inside the guard of a resource: whom a claim would wait
-- for. token is NULL where the work of several tokens cannot be told apart.
CREATE OR REPLACE FUNCTION pawl.blockers(resource text)
RETURNS TABLE (
  pid integer, token bigint, prepared text, role name, application text, client text, state text, since timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $pawl$
  WITH held AS (
    SELECT l.pid, l.mode, l.virtualtransaction, (l.classid::bigint << 32) | l.objid::bigint AS key
      FROM pg_locks l
      WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
  SELECT h.pid,
      CASE h.mode WHEN 'ShareLock' THEN (SELECT g.token FROM pawl.guard g WHERE g.resource = blockers.resource)
        ELSE (SELECT max(t.key & 9007199254740991) FROM held t
          WHERE t.virtualtransaction = h.virtualtransaction AND t.key >> 53 = 512) END,
      p.gid, coalesce(a.usename, p.owner), a.application_name, host(a.client_addr), a.state,
      coalesce(a.xact_start, p.prepared)
    FROM held h
    LEFT JOIN pg_stat_activity a ON a.pid = h.pid
    LEFT JOIN pg_locks x ON h.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = h.virtualtransaction
      AND x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock'
    LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
    WHERE h.key = pawl.lock_key(blockers.resource)
$pawl$;

-- terminate_blockers ends the sessions whose transactions are inside the guard
-- of a resource under a token below this one, and returns how many it told. The
-- caller needs the rights of pg_terminate_backend. It raises for a token that is
-- itself refused.
CREATE OR REPLACE FUNCTION pawl.terminate_blockers(resource text, cell text, token bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $pawl$
DECLARE
  mark record;
BEGIN
  SELECT g.cell, g.token INTO mark FROM pawl.guard g WHERE g.resource = terminate_blockers.resource;
  IF FOUND AND (mark.cell <> terminate_blockers.cell OR mark.token > terminate_blockers.token) THEN
    PERFORM pawl.refuse(resource, cell, token, mark.cell, mark.token);
  END IF;
  RETURN (SELECT count(*) FROM (
    SELECT pg_terminate_backend(b.pid) AS told FROM pawl.blockers(terminate_blockers.resource) b
      WHERE b.token < terminate_blockers.token AND b.pid <> pg_backend_pid()) t WHERE told);
END $pawl$;

-- The triggers speak after the statement, so that pawl.held may stand in it.
-- They call nothing of this schema, so that a writer without any right to it gets
-- the same answer.
CREATE OR REPLACE FUNCTION pawl.guard_statement() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $pawl$
DECLARE
  passed text[] := nullif(current_setting('pawl.fence', true), '')::text[];
BEGIN
  IF passed IS NULL THEN
    RAISE EXCEPTION 'pawl guard: % was written without a fence', TG_RELID::regclass
      USING ERRCODE = 'FE002', HINT = format('Begin the transaction with SELECT pawl.enter(%L, cell, token).', TG_ARGV[0]);
  ELSIF passed[1] IS DISTINCT FROM pg_current_xact_id()::text THEN
    RAISE EXCEPTION 'pawl guard: % was written with the fence of another transaction', TG_RELID::regclass
      USING ERRCODE = 'FE003';
  ELSIF TG_ARGV[0] <> ALL (passed[2:]) THEN
    RAISE EXCEPTION 'pawl guard: % is guarded by "%", and the fence is for another resource',
      TG_RELID::regclass, TG_ARGV[0] USING ERRCODE = 'FE004';
  END IF;
  RETURN NULL;
END $pawl$;

-- A row's name must not depend on who writes it, so every setting is pinned that
-- shapes a value's text.
CREATE OR REPLACE FUNCTION pawl.guard_rows() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, MDY' SET IntervalStyle = 'postgres'
  SET TimeZone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 1 SET lc_monetary = 'C'
  SET quote_all_identifiers = off AS $pawl$
DECLARE
  passed text[] := nullif(current_setting('pawl.fence', true), '')::text[];
  side   text;
  hit    boolean;
  row_of text;
BEGIN
  IF passed IS NULL THEN
    RAISE EXCEPTION 'pawl guard: % was written without a fence', TG_RELID::regclass
      USING ERRCODE = 'FE002', HINT = 'Begin the transaction with SELECT pawl.enter(resource, cell, token).';
  ELSIF passed[1] IS DISTINCT FROM pg_current_xact_id()::text THEN
    RAISE EXCEPTION 'pawl guard: % was written with the fence of another transaction', TG_RELID::regclass
      USING ERRCODE = 'FE003';
  ELSIF TG_OP = 'TRUNCATE' THEN
    RAISE EXCEPTION 'pawl guard: TRUNCATE touches every resource of %', TG_RELID::regclass USING ERRCODE = 'FE004';
  END IF;
  FOREACH side IN ARRAY CASE TG_OP WHEN 'INSERT' THEN ARRAY['new_rows'] WHEN 'DELETE' THEN ARRAY['old_rows']
      ELSE ARRAY['old_rows', 'new_rows'] END LOOP
    EXECUTE format('SELECT true, %L || r.%I::text FROM %I r WHERE ((%L || r.%I::text) COLLATE "C" = ANY ($1)) IS NOT TRUE LIMIT 1',
      TG_ARGV[1], TG_ARGV[0], side, TG_ARGV[1], TG_ARGV[0]) INTO hit, row_of USING passed[2:];
    IF hit THEN
      RAISE EXCEPTION 'pawl guard: a row of % is guarded by "%", and the fence is for another resource',
        TG_RELID::regclass, row_of USING ERRCODE = 'FE004';
    END IF;
  END LOOP;
  RETURN NULL;
END $pawl$;

-- guarded lists a table with all that inherit from it or are its partitions.
CREATE OR REPLACE FUNCTION pawl.guarded(tab regclass) RETURNS SETOF regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $pawl$
  WITH RECURSIVE tree(rel) AS (
    SELECT tab::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.rel)
  SELECT tree.rel::regclass FROM tree JOIN pg_class c ON c.oid = tree.rel WHERE c.relkind IN ('r', 'p')
$pawl$;

-- watch has every transaction that enters a resource, or any, from now on leave
-- its setting. That costs as much as the rest of enter, so it is done where
-- something is enforced.
CREATE OR REPLACE FUNCTION pawl.watch(resource text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $pawl$
BEGIN
  LOCK TABLE pawl.guard IN SHARE ROW EXCLUSIVE MODE;
  UPDATE pawl.guard g SET watched = true WHERE NOT g.watched AND g.resource = coalesce(watch.resource, g.resource);
END $pawl$;

-- enforce makes every statement that writes the table need a fence of resource,
-- whoever sends it. With always it is so under session_replication_role = replica
-- too.
CREATE OR REPLACE FUNCTION pawl.enforce(tab regclass, resource text, always boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $pawl$
DECLARE
  rel regclass;
BEGIN
  IF coalesce(resource, '') = '' THEN
    RAISE EXCEPTION 'pawl guard: no resource' USING ERRCODE = 'FE007';
  END IF;
  -- A statement fires the triggers of the table that it names, and of no other.
  IF (SELECT c.relkind NOT IN ('r', 'p') FROM pg_class c WHERE c.oid = tab) THEN
    RAISE EXCEPTION 'pawl guard: % is no table of which rows are written', tab
      USING ERRCODE = '42809', HINT = 'Enforce the tables below it.';
  ELSIF EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = tab) THEN
    RAISE EXCEPTION 'pawl guard: % is written through the table that it is a part of, too', tab
      USING ERRCODE = '42809', HINT = 'Enforce that one, by rows where they belong to several resources.';
  END IF;
  PERFORM pawl.watch(resource);
  PERFORM pawl.relax(tab);
  FOR rel IN SELECT pawl.guarded(tab) LOOP
    EXECUTE format('CREATE TRIGGER pawl_guard AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s
      FOR EACH STATEMENT EXECUTE FUNCTION pawl.guard_statement(%L)', rel, resource);
    IF always THEN
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER pawl_guard', rel);
    END IF;
  END LOOP;
END $pawl$;

-- enforce_rows is enforce for a table whose rows belong to many resources: each
-- to the one named by prefix and what is in the column. TRUNCATE is refused.
CREATE OR REPLACE FUNCTION pawl.enforce_rows(
  tab regclass, col name, prefix text DEFAULT '', always boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $pawl$
DECLARE
  rel  regclass;
  kind text[];
BEGIN
  -- The same in enforce; a function for it would need a right that roles admitted to
  -- an older version lack.
  IF (SELECT c.relkind NOT IN ('r', 'p') FROM pg_class c WHERE c.oid = tab) THEN
    RAISE EXCEPTION 'pawl guard: % is no table of which rows are written', tab
      USING ERRCODE = '42809', HINT = 'Enforce the tables below it.';
  ELSIF EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = tab) THEN
    RAISE EXCEPTION 'pawl guard: % is written through the table that it is a part of, too', tab
      USING ERRCODE = '42809', HINT = 'Enforce that one, by rows where they belong to several resources.';
  END IF;
  PERFORM pawl.watch();
  PERFORM pawl.relax(tab);
  FOR rel IN SELECT pawl.guarded(tab) LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_attribute a
        WHERE a.attrelid = rel AND a.attname = col AND a.attnum > 0 AND NOT a.attisdropped) THEN
      RAISE EXCEPTION 'pawl guard: % has no column "%"', rel, col USING ERRCODE = '42703';
    END IF;
    FOREACH kind SLICE 1 IN ARRAY ARRAY[
        ['insert', 'REFERENCING NEW TABLE AS new_rows'], ['delete', 'REFERENCING OLD TABLE AS old_rows'],
        ['update', 'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows'], ['truncate', '']] LOOP
      EXECUTE format('CREATE TRIGGER pawl_guard_%s AFTER %1$s ON %s %s
        FOR EACH STATEMENT EXECUTE FUNCTION pawl.guard_rows(%L, %L)', kind[1], rel, kind[2], col, coalesce(prefix, ''));
      IF always THEN
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER pawl_guard_%s', rel, kind[1]);
      END IF;
    END LOOP;
  END LOOP;
END $pawl$;

-- admit lets a role use the guard: enter, read marks and offsets, and enforce it on
-- tables that are the role's own. It is for the role that made the guard, once per
-- role, and again after an upgrade.
CREATE OR REPLACE FUNCTION pawl.admit(role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $pawl$
BEGIN
  -- Without the right to, GRANT does nothing and warns.
  IF NOT pg_has_role((SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'pawl'), 'USAGE') THEN
    RAISE EXCEPTION 'pawl guard: the guard is another role''s than %', current_user USING ERRCODE = '42501';
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA pawl TO %1$I; GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO %1$I;
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl TO %1$I', role);
END $pawl$;

-- relax takes back what enforce and enforce_rows did.
CREATE OR REPLACE FUNCTION pawl.relax(tab regclass)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $pawl$
DECLARE
  found_trigger record;
BEGIN
  FOR found_trigger IN SELECT t.tgname, t.tgrelid::regclass AS rel FROM pg_trigger t
      WHERE t.tgrelid IN (SELECT pawl.guarded(tab)) AND NOT t.tgisinternal
        AND t.tgfoid IN ('pawl.guard_statement()'::regprocedure, 'pawl.guard_rows()'::regprocedure) LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', found_trigger.tgname, found_trigger.rel);
  END LOOP;
END $pawl$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl FROM PUBLIC;
