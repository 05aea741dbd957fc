-- Matins guard for SQLite 3.24 or later, first form. Apply it once to the job's own database; applying it again
-- changes nothing.
--
--     matins guard sqlite | sqlite3 -bail FILE.db
--
-- What each statement promises, and to whom, is in docs/GUARD.md. A job does
--
--     INSERT INTO matins_redo VALUES (job, fire_time, redo);                            at its start, where it publishes
--     INSERT INTO matins_claim VALUES (job, fire_time, shard, token, fence);            then, before all else
--     INSERT INTO matins_guard VALUES (job, fire_time, shard, token, fence);            first in every transaction that
--                                                                                       writes, after BEGIN IMMEDIATE
--     INSERT INTO matins_done VALUES (job, fire_time, shard, shards, token, fence);     with, or after, its last write
--     INSERT INTO matins_publish VALUES (job, fire_time, shard, shards, token, fence);  where matins_publishable has a
--                                                                                       row for the fire
--
-- These five are views: what is inserted is checked and noted in the tables, and each statement fails, with all it has
-- done, when this process was replaced. Their arguments come as they are, from any language: a number bound as text is
-- the number, and what is none is refused rather than compared as text, which would be greater than all numbers.
-- (Some lines here are long: the text of RAISE is one literal.)

BEGIN IMMEDIATE;

-- The newest execution of each job that has claimed a shard. Not used where MATINS_FENCE is unset.
CREATE TABLE IF NOT EXISTS matins_jobs (
    job TEXT NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL
) WITHOUT ROWID;

-- The newest attempt at each shard, and whether it has done its work.
CREATE TABLE IF NOT EXISTS matins_shards (
    job TEXT NOT NULL,
    fire_time TEXT NOT NULL,
    shard INTEGER NOT NULL,
    token INTEGER NOT NULL,
    claimed_at TEXT NOT NULL,
    done_of INTEGER,  -- of how many shards it has done this one; null until then
    PRIMARY KEY (job, fire_time, shard)
) WITHOUT ROWID;

-- What was published of each fire.
CREATE TABLE IF NOT EXISTS matins_publications (
    job TEXT NOT NULL,
    fire_time TEXT NOT NULL,
    token_sum INTEGER NOT NULL,  -- of the attempts whose work it was: higher as soon as a shard is done once more
    times INTEGER NOT NULL,
    published_at TEXT,
    redo INTEGER NOT NULL DEFAULT 0,  -- what attempts with lower tokens have done counts no more
    PRIMARY KEY (job, fire_time)
) WITHOUT ROWID;

DROP VIEW IF EXISTS matins_redo;
DROP VIEW IF EXISTS matins_claim;
DROP VIEW IF EXISTS matins_done;
DROP VIEW IF EXISTS matins_publish;
DROP VIEW IF EXISTS matins_publishable;
DROP VIEW IF EXISTS matins_guard;

-- Read, each of these says who holds a shard now.
CREATE VIEW matins_guard AS
    SELECT s.job, s.fire_time, s.shard, s.token, j.fence
      FROM matins_shards AS s LEFT JOIN matins_jobs AS j ON j.job = s.job;
CREATE VIEW matins_claim AS
    SELECT job, fire_time, shard, token, fence FROM matins_guard;
CREATE VIEW matins_redo AS
    SELECT job, fire_time, redo FROM matins_publications WHERE redo > 0;
CREATE VIEW matins_done AS
    SELECT s.job, s.fire_time, s.shard, s.done_of AS shards, s.token, g.fence
      FROM matins_shards AS s JOIN matins_guard AS g USING (job, fire_time, shard) WHERE s.done_of IS NOT NULL;
CREATE VIEW matins_publish AS
    SELECT job, fire_time, shard, shards, token, fence FROM matins_done;

-- Fires whose shards are all done, and were not all published as they are now.
CREATE VIEW matins_publishable AS
    SELECT s.job, s.fire_time, s.done_of AS shards, sum(s.token) AS token_sum
      FROM matins_shards AS s
     WHERE s.done_of IS NOT NULL
       AND s.token >= ifnull((SELECT p.redo FROM matins_publications AS p
                               WHERE p.job = s.job AND p.fire_time = s.fire_time), 0)
     GROUP BY s.job, s.fire_time, s.done_of
    HAVING count(*) = s.done_of
       AND sum(s.token) IS NOT (SELECT p.token_sum FROM matins_publications AS p
                                 WHERE p.job = s.job AND p.fire_time = s.fire_time);

CREATE TRIGGER matins_guard_insert INSTEAD OF INSERT ON matins_guard
BEGIN
    SELECT CASE
        WHEN NEW.job IS NULL OR NEW.fire_time IS NULL
          OR CAST(NEW.shard AS TEXT) IS NOT CAST(CAST(NEW.shard AS INTEGER) AS TEXT) OR NEW.shard IS NULL
          OR CAST(NEW.token AS TEXT) IS NOT CAST(CAST(NEW.token AS INTEGER) AS TEXT) OR NEW.token IS NULL
          OR CAST(NEW.fence AS TEXT) IS NOT CAST(CAST(NEW.fence AS INTEGER) AS TEXT)
        THEN RAISE(ABORT, 'matins: job, fire_time, shard or token is null, or shard, token or fence is no whole number: give what MATINS_JOB_ID, _FIRE_TIME, _SHARD, _TOKEN and _FENCE hold, null for a _FENCE that is unset')
        WHEN EXISTS (SELECT 1 FROM matins_jobs
                      WHERE job = NEW.job AND fence > CAST(NEW.fence AS INTEGER))
        THEN RAISE(ABORT, 'matins: a later execution of this job has claimed a shard: this process was replaced; stop')
        WHEN EXISTS (SELECT 1 FROM matins_shards
                      WHERE job = NEW.job AND fire_time = NEW.fire_time AND shard = CAST(NEW.shard AS INTEGER)
                        AND token > CAST(NEW.token AS INTEGER))
        THEN RAISE(ABORT, 'matins: a later attempt has claimed this shard: this process was replaced; stop')
        WHEN NOT EXISTS (SELECT 1 FROM matins_shards
                          WHERE job = NEW.job AND fire_time = NEW.fire_time AND shard = CAST(NEW.shard AS INTEGER)
                            AND token = CAST(NEW.token AS INTEGER))
          OR (NEW.fence IS NOT NULL
              AND NOT EXISTS (SELECT 1 FROM matins_jobs
                               WHERE job = NEW.job AND fence = CAST(NEW.fence AS INTEGER)))
        THEN RAISE(ABORT, 'matins: this token has not claimed this shard: insert the same values into matins_claim first')
    END;
END;

-- A person wants all of the fire anew: what was done before is not published together with what is done now.
CREATE TRIGGER matins_redo_insert INSTEAD OF INSERT ON matins_redo
BEGIN
    SELECT RAISE(ABORT, 'matins: job or fire_time is null, or redo is no whole number: give what MATINS_JOB_ID, _FIRE_TIME and _REDO hold, null for a _REDO that is unset')
     WHERE NEW.job IS NULL OR NEW.fire_time IS NULL
        OR CAST(NEW.redo AS TEXT) IS NOT CAST(CAST(NEW.redo AS INTEGER) AS TEXT);
    INSERT INTO matins_publications (job, fire_time, token_sum, times, redo)
    SELECT NEW.job, NEW.fire_time, 0, 0, CAST(NEW.redo AS INTEGER) WHERE NEW.redo IS NOT NULL
        ON CONFLICT (job, fire_time) DO UPDATE SET redo = max(redo, excluded.redo);
END;

CREATE TRIGGER matins_claim_insert INSTEAD OF INSERT ON matins_claim
BEGIN
    UPDATE matins_jobs SET fence = CAST(NEW.fence AS INTEGER)
     WHERE job = NEW.job AND fence < CAST(NEW.fence AS INTEGER);
    INSERT INTO matins_jobs (job, fence)
    SELECT NEW.job, CAST(NEW.fence AS INTEGER)
     WHERE NEW.job IS NOT NULL AND NEW.fence IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM matins_jobs WHERE job = NEW.job);
    UPDATE matins_shards
       SET token = CAST(NEW.token AS INTEGER), claimed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), done_of = NULL
     WHERE job = NEW.job AND fire_time = NEW.fire_time AND shard = CAST(NEW.shard AS INTEGER)
       AND token < CAST(NEW.token AS INTEGER);
    INSERT INTO matins_shards (job, fire_time, shard, token, claimed_at)
    SELECT NEW.job, NEW.fire_time, CAST(NEW.shard AS INTEGER), CAST(NEW.token AS INTEGER),
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
     WHERE NEW.job IS NOT NULL AND NEW.fire_time IS NOT NULL AND NEW.shard IS NOT NULL AND NEW.token IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM matins_shards
                        WHERE job = NEW.job AND fire_time = NEW.fire_time AND shard = CAST(NEW.shard AS INTEGER));
    INSERT INTO matins_guard VALUES (NEW.job, NEW.fire_time, NEW.shard, NEW.token, NEW.fence);
END;

CREATE TRIGGER matins_done_insert INSTEAD OF INSERT ON matins_done
BEGIN
    INSERT INTO matins_guard VALUES (NEW.job, NEW.fire_time, NEW.shard, NEW.token, NEW.fence);
    SELECT RAISE(ABORT, 'matins: there is no such shard: give what MATINS_SHARD and MATINS_SHARDS hold, shards count from 0')
     WHERE NEW.shards IS NULL OR CAST(NEW.shard AS INTEGER) < 0
        OR CAST(NEW.shard AS INTEGER) >= CAST(NEW.shards AS INTEGER);
    UPDATE matins_shards SET done_of = CAST(NEW.shards AS INTEGER)
     WHERE job = NEW.job AND fire_time = NEW.fire_time AND shard = CAST(NEW.shard AS INTEGER);
END;

CREATE TRIGGER matins_publish_insert INSTEAD OF INSERT ON matins_publish
BEGIN
    INSERT INTO matins_guard VALUES (NEW.job, NEW.fire_time, NEW.shard, NEW.token, NEW.fence);
    SELECT RAISE(ABORT, 'matins: nothing to publish: not all shards are done, or they are published as they are; ask matins_publishable first')
     WHERE NOT EXISTS (SELECT 1 FROM matins_publishable
                        WHERE job = NEW.job AND fire_time = NEW.fire_time AND shards = CAST(NEW.shards AS INTEGER));
    INSERT INTO matins_publications (job, fire_time, token_sum, times, published_at)
    SELECT job, fire_time, token_sum, 1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM matins_publishable
     WHERE job = NEW.job AND fire_time = NEW.fire_time AND shards = CAST(NEW.shards AS INTEGER)
        ON CONFLICT (job, fire_time) DO UPDATE
       SET token_sum = excluded.token_sum, times = times + 1, published_at = excluded.published_at;
END;

COMMIT;
