-- The job's own tables, in words that SQLite and PostgreSQL both understand. Beside them stands the guard, as
-- `matins guard sqlite` or `matins guard postgres` prints it.

-- One row for each difference that a fire has found; unique, so that none can be there twice.
CREATE TABLE IF NOT EXISTS differences (
    job TEXT NOT NULL, fire_time TEXT NOT NULL,
    kind TEXT NOT NULL, reference TEXT NOT NULL, bank TEXT NOT NULL, ledger TEXT NOT NULL,
    shard BIGINT NOT NULL, token BIGINT NOT NULL,
    PRIMARY KEY (job, fire_time, kind, reference)
);

-- What each shard has read, so that a line nobody looked at does not go unnoticed.
CREATE TABLE IF NOT EXISTS lines_read (
    job TEXT NOT NULL, fire_time TEXT NOT NULL, shard BIGINT NOT NULL,
    bank BIGINT NOT NULL, ledger BIGINT NOT NULL, token BIGINT NOT NULL,
    PRIMARY KEY (job, fire_time, shard)
);

-- The result that others read: of each day, as the newest fire for it has published it.
CREATE TABLE IF NOT EXISTS settlements (
    job TEXT NOT NULL, business_date TEXT NOT NULL, kind TEXT NOT NULL,
    differences BIGINT NOT NULL, fire_time TEXT NOT NULL, token BIGINT NOT NULL,
    PRIMARY KEY (job, business_date, kind)
);
