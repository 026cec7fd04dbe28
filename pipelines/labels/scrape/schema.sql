-- What was asked and what was answered. The landmarks come from the table; pages, items and labels are facts, each
-- asked once and kept with its source and time (seconds since 1970); a landmark's label is the join of them.

CREATE TABLE IF NOT EXISTS landmarks (
    landmark_id INTEGER PRIMARY KEY,
    category TEXT NOT NULL,          -- as published
    title TEXT,                      -- NULL where the category is malformed
    reason TEXT                      -- why it is
);
CREATE INDEX IF NOT EXISTS landmarks_by_title ON landmarks (title);

CREATE TABLE IF NOT EXISTS pages (
    title TEXT PRIMARY KEY,          -- as asked
    status TEXT NOT NULL,            -- found, no item, missing, moved, unreadable move, no infobox, no instance
    item TEXT,                       -- the Wikidata item of the page
    redirects TEXT NOT NULL,         -- JSON: the titles gone through within Commons
    target TEXT,                     -- of a soft redirect: the title to ask next
    read TEXT,                       -- JSON, where the page itself was read: [[label, linked page or ""], …]
    source TEXT NOT NULL,
    time INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS items (
    item TEXT PRIMARY KEY,           -- as asked
    status TEXT NOT NULL,            -- found, missing
    redirect TEXT,                   -- where the item has gone to
    category INTEGER NOT NULL,       -- whether it is a Wikimedia category
    topic TEXT,                      -- of a category: its main topic, P301
    revision INTEGER,
    modified TEXT,
    source TEXT NOT NULL,
    time INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS instances (
    item TEXT NOT NULL REFERENCES items (item) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    value TEXT NOT NULL,             -- P31
    PRIMARY KEY (item, position)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS labels (
    item TEXT PRIMARY KEY,
    text TEXT,                       -- NULL where no language of the fallback has one
    language TEXT,
    source TEXT NOT NULL,
    time INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS classes (
    item TEXT PRIMARY KEY,           -- a class of landmarks, or one above it, that was asked what it is a subclass of
    source TEXT NOT NULL,
    time INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS superclasses (
    item TEXT NOT NULL REFERENCES classes (item) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    value TEXT NOT NULL,             -- P279
    PRIMARY KEY (item, position)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS failures (
    stage TEXT NOT NULL,
    key TEXT NOT NULL,
    reason TEXT NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (stage, key)
) WITHOUT ROWID;

-- When Wikimedia may be asked again, so that a pause outlives the process.
CREATE TABLE IF NOT EXISTS next_request (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    time REAL NOT NULL
);

-- One row a landmark and stage: how its label came about.
CREATE VIEW IF NOT EXISTS stages AS
WITH RECURSIVE chain (landmark_id, hop, title) AS (
    SELECT landmark_id, 0, title FROM landmarks WHERE title IS NOT NULL
    UNION ALL
    SELECT chain.landmark_id, hop + 1, pages.target FROM chain JOIN pages USING (title)
    WHERE pages.target IS NOT NULL AND hop < 5
)
SELECT landmark_id, 'category' AS stage, title AS key, iif(title IS NULL, 'malformed', 'read') AS status,
       NULL AS value, NULL AS redirects, NULL AS revision, NULL AS source, NULL AS time, reason
FROM landmarks
UNION ALL
SELECT landmark_id, 'page', title, coalesce(status, 'failed'), coalesce(target, item, read), redirects, NULL, source,
       coalesce(pages.time, failures.time), reason
FROM chain LEFT JOIN pages USING (title) LEFT JOIN failures ON failures.stage = 'page' AND key = title
WHERE status IS NOT NULL OR reason IS NOT NULL
UNION ALL
SELECT landmark_id, 'item', items.item, items.status, topic, redirect, revision, items.source, items.time, NULL
FROM chain JOIN pages USING (title) JOIN items ON items.item = pages.item
UNION ALL
SELECT landmark_id, 'topic', topics.item, topics.status, NULL, topics.redirect, topics.revision, topics.source,
       topics.time, NULL
FROM chain JOIN pages USING (title) JOIN items ON items.item = pages.item JOIN items AS topics ON topics.item = items.topic
UNION ALL
SELECT landmark_id, 'label', instances.value, iif(text IS NULL, 'no label', language), text, NULL, NULL, labels.source,
       labels.time, NULL
FROM chain JOIN pages USING (title) JOIN items ON items.item = pages.item
JOIN instances ON instances.item = coalesce(items.topic, items.item) JOIN labels ON labels.item = instances.value;
