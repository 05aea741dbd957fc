-- Matins guard for PostgreSQL 11 or later, first form. Apply it once to the job's own database, as the role the job
-- writes as; applying it again changes nothing.
--
--     matins guard postgres | psql -X -v ON_ERROR_STOP=1 DATABASE
--
-- What each statement promises, and to whom, is in docs/GUARD.md. A job calls
--
--     SELECT matins.redo(job, fire_time, redo);                            at its start, where it publishes
--     SELECT matins.claim(job, fire_time, shard, token, fence);            then, and commits
--     SELECT matins.guard(job, fire_time, shard, token, fence);            first in every transaction that writes
--     SELECT matins.done(job, fire_time, shard, shards, token, fence);     with, or after, its last write
--     SELECT matins.publish(job, fire_time, shard, shards, token, fence);  in one of its own; where true, publish
--
-- Rows are locked in one order everywhere, so that nobody deadlocks: the job, one's own shard, the publication. Who only
-- checks shares the first two, so shards do not wait for each other; who replaces somebody waits there for that one's
-- open transactions to end. The third is for who publishes, and keeps off who would have a shard computed anew.

BEGIN;
SET LOCAL client_min_messages = warning;

DO $$
BEGIN
    -- Two that apply this at once go one after the other.
    PERFORM pg_advisory_xact_lock(hashtext('matins guard'));
    IF to_regnamespace('matins') IS NULL THEN
        CREATE SCHEMA matins;
    END IF;
END
$$;

-- The newest execution of each job that has claimed a shard. Not used where MATINS_FENCE is unset.
CREATE TABLE IF NOT EXISTS matins.jobs (
    job text PRIMARY KEY,
    fence bigint NOT NULL
);

-- The newest attempt at each shard, and whether it has done its work.
CREATE TABLE IF NOT EXISTS matins.shards (
    job text NOT NULL,
    fire_time text NOT NULL,
    shard bigint NOT NULL,
    token bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    done_of bigint,              -- of how many shards it has done this one; null until then
    changed_in bigint NOT NULL,  -- transaction that claimed it or marked it done
    PRIMARY KEY (job, fire_time, shard)
);

-- What was published of each fire.
CREATE TABLE IF NOT EXISTS matins.publications (
    job text NOT NULL,
    fire_time text NOT NULL,
    token_sum numeric NOT NULL,  -- of the attempts whose work it was: higher as soon as a shard is done once more
    times bigint NOT NULL,
    published_at timestamptz,
    redo bigint NOT NULL DEFAULT 0,  -- what attempts with lower tokens have done counts no more
    PRIMARY KEY (job, fire_time)
);

CREATE OR REPLACE FUNCTION matins.refuse_replaced(
    job text, fire_time text, shard bigint, what text, mine bigint, newer bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% % shard %: % % was replaced by %: this process was replaced; stop',
        job, fire_time, shard, what, mine, newer
        USING ERRCODE = 'MT001', HINT = 'End now and write nothing: whoever replaced this process does its work.';
END
$$;

CREATE OR REPLACE FUNCTION matins.check_arguments(job text, fire_time text, shard bigint, token bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF job IS NULL OR fire_time IS NULL OR shard IS NULL OR token IS NULL THEN
        RAISE EXCEPTION 'matins: job, fire_time, shard or token is null'
            USING ERRCODE = 'MT002', HINT = 'Give what MATINS_JOB_ID, _FIRE_TIME, _SHARD and _TOKEN hold.';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION matins.refuse_unclaimed(job text, fire_time text, shard bigint, token bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% % shard %: token % has not claimed this shard', job, fire_time, shard, token
        USING ERRCODE = 'MT002', HINT = 'Call matins.claim with the same arguments first, and commit.';
END
$$;

-- Until this transaction ends no later execution of the job can claim a shard.
CREATE OR REPLACE FUNCTION matins.hold_job(job text, fire_time text, shard bigint, token bigint, fence bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    newest_fence bigint;
BEGIN
    IF fence IS NULL THEN
        RETURN;
    END IF;
    SELECT j.fence INTO newest_fence FROM matins.jobs AS j WHERE j.job = hold_job.job FOR SHARE;
    IF newest_fence > fence THEN
        PERFORM matins.refuse_replaced(job, fire_time, shard, 'fence', fence, newest_fence);
    ELSIF newest_fence IS DISTINCT FROM fence THEN
        PERFORM matins.refuse_unclaimed(job, fire_time, shard, token);
    END IF;
END
$$;

-- Until this transaction ends no later attempt can claim the shard either. Answers what last changed its row.
CREATE OR REPLACE FUNCTION matins.hold(job text, fire_time text, shard bigint, token bigint, fence bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest_token bigint;
    changed_in bigint;
BEGIN
    PERFORM matins.check_arguments(job, fire_time, shard, token);
    PERFORM matins.hold_job(job, fire_time, shard, token, fence);
    SELECT s.token, s.changed_in INTO newest_token, changed_in FROM matins.shards AS s
     WHERE s.job = hold.job AND s.fire_time = hold.fire_time AND s.shard = hold.shard
       FOR SHARE;
    IF newest_token > token THEN
        PERFORM matins.refuse_replaced(job, fire_time, shard, 'token', token, newest_token);
    ELSIF newest_token IS DISTINCT FROM token THEN
        PERFORM matins.refuse_unclaimed(job, fire_time, shard, token);
    END IF;
    RETURN changed_in;
END
$$;

CREATE OR REPLACE FUNCTION matins.claim(job text, fire_time text, shard bigint, token bigint, fence bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM matins.check_arguments(job, fire_time, shard, token);
    IF fence IS NOT NULL THEN
        INSERT INTO matins.jobs (job, fence) VALUES (job, fence) ON CONFLICT DO NOTHING;
        UPDATE matins.jobs AS j SET fence = claim.fence WHERE j.job = claim.job AND j.fence < claim.fence;
    END IF;
    PERFORM matins.hold_job(job, fire_time, shard, token, fence);
    INSERT INTO matins.shards (job, fire_time, shard, token, claimed_at, changed_in)
        VALUES (job, fire_time, shard, token, clock_timestamp(), txid_current())
        ON CONFLICT DO NOTHING;
    UPDATE matins.shards AS s
       SET token = claim.token, claimed_at = clock_timestamp(), done_of = NULL, changed_in = txid_current()
     WHERE s.job = claim.job AND s.fire_time = claim.fire_time AND s.shard = claim.shard AND s.token < claim.token;
    PERFORM matins.hold(job, fire_time, shard, token, fence);
    -- Not while somebody publishes the fire. The row is written, not only locked, so that who publishes under a
    -- snapshot of before is told of a conflict.
    INSERT INTO matins.publications (job, fire_time, token_sum, times) VALUES (job, fire_time, 0, 0)
        ON CONFLICT DO NOTHING;
    UPDATE matins.publications AS p SET times = p.times WHERE p.job = claim.job AND p.fire_time = claim.fire_time;
END
$$;

-- A person wants all of the fire anew: what was done before is not published together with what is done now.
CREATE OR REPLACE FUNCTION matins.redo(job text, fire_time text, redo bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM matins.check_arguments(job, fire_time, 0, 0);
    IF redo IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO matins.publications (job, fire_time, token_sum, times) VALUES (job, fire_time, 0, 0)
        ON CONFLICT DO NOTHING;
    UPDATE matins.publications AS p SET redo = redo.redo
     WHERE p.job = redo.job AND p.fire_time = redo.fire_time AND p.redo < redo.redo;
END
$$;

CREATE OR REPLACE FUNCTION matins.guard(job text, fire_time text, shard bigint, token bigint, fence bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- A snapshot taken before the claim was through may lack what the one replaced wrote last, and a full recompute
    -- would leave those rows standing. Under read committed every statement takes a new one.
    IF matins.hold(job, fire_time, shard, token, fence) = txid_current()
        AND current_setting('transaction_isolation') <> 'read committed'
    THEN
        RAISE EXCEPTION '% % shard %: claimed in the transaction that writes', job, fire_time, shard
            USING ERRCODE = 'MT002', HINT = 'Commit matins.claim before you begin the transaction that writes.';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION matins.done(
    job text, fire_time text, shard bigint, shards bigint, token bigint, fence bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM matins.hold(job, fire_time, shard, token, fence);
    IF shards IS NULL OR shard < 0 OR shard >= shards THEN
        RAISE EXCEPTION '% %: there is no shard % of %', job, fire_time, shard, shards
            USING ERRCODE = 'MT002', HINT = 'Give what MATINS_SHARD and MATINS_SHARDS hold: shards count from 0.';
    END IF;
    UPDATE matins.shards AS s SET done_of = done.shards, changed_in = txid_current()
     WHERE s.job = done.job AND s.fire_time = done.fire_time AND s.shard = done.shard
       AND s.done_of IS DISTINCT FROM done.shards;
END
$$;

CREATE OR REPLACE FUNCTION matins.publish(
    job text, fire_time text, shard bigint, shards bigint, token bigint, fence bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    shards_done bigint;
    done_token_sum numeric;
    redone_from bigint;
BEGIN
    -- Of two that finish at once, each must see the other's mark; neither would, had it not committed its own.
    IF matins.hold(job, fire_time, shard, token, fence) = txid_current() THEN
        RAISE EXCEPTION '% % shard %: published in the transaction that claimed it or marked it done',
            job, fire_time, shard
            USING ERRCODE = 'MT002', HINT = 'Commit that one, and call matins.publish in a transaction of its own.';
    END IF;
    -- One at a time, and no shard is claimed anew until this transaction ends.
    INSERT INTO matins.publications (job, fire_time, token_sum, times) VALUES (job, fire_time, 0, 0)
        ON CONFLICT DO NOTHING;
    SELECT p.redo INTO redone_from FROM matins.publications AS p
     WHERE p.job = publish.job AND p.fire_time = publish.fire_time FOR UPDATE;
    SELECT count(*), sum(s.token) INTO shards_done, done_token_sum FROM matins.shards AS s
     WHERE s.job = publish.job AND s.fire_time = publish.fire_time AND s.done_of = publish.shards
       AND s.token >= redone_from;
    IF shards_done IS DISTINCT FROM shards THEN
        RETURN false;
    END IF;
    UPDATE matins.publications AS p
       SET token_sum = done_token_sum, times = p.times + 1, published_at = clock_timestamp()
     WHERE p.job = publish.job AND p.fire_time = publish.fire_time AND p.token_sum <> done_token_sum;
    RETURN FOUND;
END
$$;

COMMIT;
