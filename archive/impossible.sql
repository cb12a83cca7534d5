-- fact {} has no content
SELECT seq FROM journal WHERE CASE kind
    WHEN 'result' THEN seq NOT IN (SELECT seq FROM results WHERE evaluation IS NOT NULL)
    WHEN 'barren' THEN seq NOT IN (SELECT seq FROM results WHERE evaluation IS NULL)
    WHEN 'insight' THEN seq NOT IN (
        SELECT i.seq FROM insights i JOIN results r ON r.seq = i.seq AND r.step = i.step AND r.evaluation IS NULL
    )
    WHEN 'evaluation' THEN seq NOT IN (SELECT seq FROM evaluations)
    WHEN 'inbox' THEN seq NOT IN (SELECT taken_seq FROM inbox WHERE taken_seq IS NOT NULL)
    WHEN 'config_edit' THEN seq NOT IN (SELECT seq FROM config_edits)
    WHEN 'stop' THEN seq NOT IN (SELECT seq FROM stops)
    ELSE 1
END

-- the journal skips from fact {} on
SELECT before + 1 FROM (SELECT seq, lag(seq, 1, 0) OVER (ORDER BY seq) AS before FROM journal)
WHERE seq <> before + 1

-- step {} has neither a result nor a lease
SELECT step FROM proposals
WHERE step NOT IN (SELECT step FROM results) AND step NOT IN (SELECT step FROM leases)

-- step {} has a result and a lease
SELECT step FROM leases WHERE step IN (SELECT step FROM results)

-- the result of step {} has a candidate but no evaluation, or the reverse
SELECT r.step FROM results r JOIN proposals p ON p.step = r.step
WHERE (p.candidate IS NULL) <> (r.evaluation IS NULL)

-- the result of step {} is an evaluation of another program
SELECT r.step FROM results r
JOIN proposals p ON p.step = r.step
JOIN candidates c ON c.id = p.candidate
JOIN evaluations e ON e.seq = r.evaluation
WHERE e.program_hash <> c.program_hash

-- the result of step {} uses an evaluation that came later
SELECT step FROM results WHERE evaluation > seq

-- insight {} is not what the journal says it is
SELECT seq FROM insights WHERE seq NOT IN (SELECT seq FROM journal WHERE kind = 'insight')

-- step {} was made with insights that are not in the store
SELECT p.step FROM proposals p
WHERE p.insights <> '[]' AND (
    NOT json_valid(p.insights) OR EXISTS (
        SELECT 1 FROM json_each(CASE WHEN json_valid(p.insights) THEN p.insights ELSE '[]' END) e
        WHERE e.value NOT IN (SELECT seq FROM (@KNOWN@) WHERE seq IS NOT NULL)
    )
)

-- call {} has ended without a reply, or is open with one
SELECT number FROM calls WHERE (status = 'open') <> (reply IS NULL)

-- candidate {} was born in a step that did not propose it
SELECT id FROM candidates
WHERE NOT EXISTS (SELECT 1 FROM proposals p WHERE p.step = candidates.born AND p.candidate = candidates.id)
