-- What was asked and what was answered. Landmarks come from the table; each answer leads to the next questions, each of
-- which is asked once. Answers are JSON (facts.py says of what), with their source and time (seconds since 1970).

CREATE TABLE landmarks (
    landmark_id TEXT PRIMARY KEY,    -- in the order of the rows
    category TEXT NOT NULL,          -- as published
    key TEXT,                        -- a title of Commons or an item of Wikidata; NULL where the category is malformed
    reason TEXT                      -- why it is
);

-- Classes of labels that came from elsewhere: what stands above them is asked, too.
CREATE TABLE IF NOT EXISTS classes (key TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS answers (
    stage TEXT NOT NULL,             -- page, item, class (what it is a subclass of) or label
    key TEXT NOT NULL,               -- as asked
    answer TEXT NOT NULL,
    source TEXT NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (stage, key)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS leads (
    stage TEXT NOT NULL,
    key TEXT NOT NULL,
    position INTEGER NOT NULL,
    next_stage TEXT NOT NULL,
    next_key TEXT NOT NULL,
    PRIMARY KEY (stage, key, position),
    FOREIGN KEY (stage, key) REFERENCES answers ON DELETE CASCADE
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

-- One row a landmark and question, up to the labels of its classes: how its label came about.
CREATE VIEW stages AS
WITH RECURSIVE way (landmark_id, hop, stage, key) AS (
    SELECT landmark_id, 0, iif(key LIKE 'Category:%', 'page', 'item'), key FROM landmarks WHERE key IS NOT NULL
    UNION
    SELECT landmark_id, hop + 1, iif(next_stage = 'class', 'label', next_stage), next_key
    FROM way JOIN leads USING (stage, key) WHERE hop < 9
)
SELECT landmark_id, stage, key, answer, source, coalesce(answers.time, failures.time) AS time, reason
FROM way LEFT JOIN answers USING (stage, key) LEFT JOIN failures USING (stage, key)
UNION ALL
SELECT landmark_id, 'category', category, NULL, NULL, NULL, reason FROM landmarks;
