"""Every size, count and time limit, each with the reason for its number.

A number that appears nowhere else cannot drift. Change one here, in a commit
that says why, and run `make bench` before and after. Times are in seconds
unless the name says otherwise.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# The longest key S3 accepts, and no store we support accepts less.
PATH_BYTES_MAX = 1024

# A place or an address as text: the longest path that Linux opens; those of S3 are shorter.
PLACE_BYTES_MAX = 4 * KIB
# A new namespace leaves room for the keys below it. Each of its folders is resolved, and looked into for a repository above.
NAMESPACE_BYTES_MAX = 1024
NAMESPACE_FOLDERS_MAX = 32
# The longest name of a folder on Linux.
FOLDER_NAME_BYTES_MAX = 255

# A staging row's key is its path and a short prefix; the KV must hold both.
KV_KEY_BYTES_MAX = 1024 + 64
# PostgreSQL refuses an index entry over 2,704 bytes, and partition and key share one.
KV_PARTITION_BYTES_MAX = 1024
# A record is read and written whole; the largest we store are job documents of a few MiB.
KV_VALUE_BYTES_MAX = 64 * MIB

# Branch and tag names go into KV keys and staging tokens; S3 tools also show them as folder names.
REF_NAME_BYTES_MAX = 255
# How much of a text of a request an error repeats: every valid name of a ref, and of a longer text enough to know it by.
NAME_SHOWN_MAX = 256
# Characters of one field of an S3 error: what was signed is shown to whoever debugs a client, and may be a whole head.
S3_ERROR_TEXT_MAX = 4096

# S3 allows 2 KiB of user metadata; eight times that is generous for clients of the REST API.
METADATA_BYTES_MAX = 16 * KIB
# The message of a commit or a stash, which every log shows: a page of a thousand commits takes 64 MiB at the most.
MESSAGE_BYTES_MAX = 64 * KIB

# One page of an ordered scan: large enough that a round trip is noise, small enough to hold in memory.
SCAN_PAGE_ITEMS = 10_000

# Counting what a namespace holds ends after so long, with "at least": somebody waits for the answer.
STORAGE_COUNT_SECONDS = 10.0

# A page ends early at this many bytes of values: records may be large, and PostgreSQL makes no value above a GiB.
SCAN_PAGE_BYTES = 8 * MIB

# One page of an API listing, and what a client gets when it asks for nothing in particular.
LIST_PAGE_MAX = 1000
LIST_PAGE_DEFAULT = 100

# One step of a copy from store to store: rows and bytes of values that are held, and written again after a crash.
COPY_PAGE_ROWS = 5_000
COPY_PAGE_BYTES = 8 * MIB

# A drop is cut into steps of this many rows so that no transaction holds the writer for long.
DROP_STEP_ROWS = 5_000

# One write transaction of many waiting requests: bounds its memory and the wait of the last in line.
BATCH_ROWS_MAX = 10_000
BATCH_BYTES_MAX = 16 * MIB

# The LMDB map at first: address space only, so generous; it doubles by itself when it is full.
LMDB_MAP_BYTES = GIB
# Places in LMDB's reader table, 64 bytes each; a process takes one or two.
LMDB_READERS_MAX = 512
# A reader that died keeps old pages from being used again until someone looks; looking costs a lock.
LMDB_STALE_READERS_SECONDS = 30.0
# A small write is made on the event loop: handing it to a thread and back costs more than the sync, which takes a
# quarter of a millisecond on the disk of a server. Up to so many rows and bytes a write is small.
LMDB_INLINE_ROWS_MAX = 256
LMDB_INLINE_BYTES_MAX = MIB
# A disk on which it takes longer than this gets its writes from the thread, for so long.
LMDB_INLINE_SECONDS_MAX = 0.003
LMDB_INLINE_PAUSE_SECONDS = 1.0
# LMDB is read on the event loop: one step of a scan is this many rows, about a quarter of a millisecond. Measured
# during a commit of 500,000: with 2,000 writers keep a fifth of their rate, with 250 more than a third.
LMDB_SCAN_STEP_ROWS = 250
# A page ends early at this many bytes, because values may be large.
LMDB_SCAN_STEP_BYTES = 4 * MIB

# PostgreSQL allows 100 connections by default, and several processes share them.
POSTGRES_CONNECTIONS_MAX = 16
# No statement of ours takes longer on a healthy server; the client waits a little longer than the server.
POSTGRES_STATEMENT_SECONDS = 10.0
POSTGRES_REPLY_SECONDS = 15.0
# A server that does not accept a connection for so long is taken for gone. After a failed try the next one comes within the
# second number of seconds, however long the outage has lasted: requests succeed less than 5 s after its end.
POSTGRES_CONNECT_SECONDS = 3
POSTGRES_RECONNECT_SECONDS = 2.0
# Deadlocks in a row (the server rolled back, so repeating is safe) before the caller is told.
POSTGRES_ATTEMPTS_MAX = 5

# Where a range ends: a key whose hash is 0 modulo this. It gives ranges of about that many entries.
RANGE_ENTRIES_EXPECTED = 50_000
# No range is larger than this, whatever the hashes say: it is decoded whole.
RANGE_ENTRIES_MAX = 250_000
RANGE_BYTES_MAX = 64 * MIB

# Each sealed layer is one more lookup of a point read, and the record that lists them must stay small.
SEALED_LAYERS_MAX = 64
# Writers are told to wait at the first number, so that sealing (which is never refused) keeps room.
SEALED_LAYERS_SLOWDOWN = 48
# The same at so many bytes of sealed segments: decoded they take about four times that, and what readers of one branch go
# through should fit into the cache of ranges.
SEALED_BYTES_SLOWDOWN = 2 * GIB
# A branch that compaction has given up on shrinks only by a commit or a reset, and an hour in which nobody sees to it must
# not stop its writers: so many times those numbers. Reads of it may be slower; the record stays below 400 KiB even with
# the longest paths for bounds.
SEALED_PARKED_FACTOR = 3

# A segment's datasets share a row group up to the first number of rows, because each group costs the footer a
# kilobyte, and are cut into groups of the second, which is what an encoder holds.
SEGMENT_GROUP_ROWS_MIN = 1_000
SEGMENT_GROUP_ROWS = 250_000
# A dataset is decoded whole, by one reader in a few hundred MiB: no fold makes a larger one, no bulk writer hands one in.
SEGMENT_ROWS_MAX = 1_000_000
SEGMENT_BYTES_MAX = 256 * MIB
# What the rows of a segment from outside may unpack to: twice what a million usual ones take.
SEGMENT_DECODED_BYTES_MAX = 512 * MIB
# Row groups of a segment from outside, and its footer: a thousand rows a group for ten million rows, and their Bloom filter.
SEGMENT_GROUPS_MAX = 10_000
SEGMENT_FOOTER_BYTES_MAX = 32 * MIB
# What the helper process that checks a segment from outside may take: rows of 512 MiB take 1.6 GiB and 5 s. A file that
# unpacks to more than its footer says ends there.
SEGMENT_CHECK_MEMORY_BYTES = 5 * GIB // 2
SEGMENT_CHECK_CPU_SECONDS = 60.0
# Segments from outside that one process checks and stores at the same time: each takes up to a GiB meanwhile.
SEGMENT_CHECKS_AT_ONCE = 1
# Folders outside that the addresses of one segment may lie in: each is looked at before anything is read from there.
SEGMENT_FOLDERS_MAX = 10_000
# Entries of a segment from outside that lie in the repository's own storage: each has a link token to be looked up.
SEGMENT_LINKS_MAX = 10_000
# A small dataset is fetched with the whole file in one request; of a large one the end comes first, this much of it.
SEGMENT_WHOLE_BYTES = MIB
SEGMENT_FOOTER_BYTES = 128 * 1024
# Footers of segments held as values, with their Bloom filters: those of 20 million staged changes.
SEGMENT_FOOTERS_BYTES_MAX = 64 * MIB
# What a writer has just stored is kept in the cache folder from this size on: a file for each of a thousand branches
# takes longer than the object that they share.
SEGMENT_CACHED_BYTES_MIN = 64 * KIB
# Copies of those filters of one branch, and of all branches being read, that are asked in one step: with more than the
# first number (a filter for 6 million changes) the rest are asked one by one.
SIEVE_BYTES_MAX = 8 * MIB
SIEVES_BYTES_MAX = 64 * MIB
# Sealed tokens with no more rows than the first number get such a filter, too, 12 KiB at most: reading the keys of a larger
# one takes longer than it mostly stays sealed. As many of them are kept as a few branches have that pile up layers.
TOKEN_FILTER_ROWS_MAX = 10_000
TOKEN_FILTERS_MAX = 1_000
# Segments that one read fetches at the same time.
SEGMENTS_AHEAD = 8
# A batch of so many changes is one segment instead of rows: a file costs two round trips, whatever is in it, and so many
# rows cost a database more than that.
SEGMENT_BATCH_ROWS = 20_000
# With more sealed layers than this, batches go as rows again: every segment is a layer, and where no compactor runs,
# writers would soon be told to wait.
SEGMENT_LAYERS_MAX = 24
# The same while the branch record lists so many retired layers (200 bytes each): segments stay listed for a whole grace.
SEGMENT_RETIRED_MAX = 256
# Branches that one segment serves: the footer lists them all, and is read to find one.
SEGMENT_DATASETS_MAX = 10_000
# What writers put into one object for several branches: a footer of 300 KiB, and rows that are encoded in half a second.
SEGMENT_SHARED_DATASETS = 1_000
SEGMENT_SHARED_ROWS = 100_000
# After an object for so many branches the next one waits so long for each of them but the first, and no longer than
# this: at most four objects a second where many share them, and no wait where nobody does.
SEGMENT_PAUSE_SECONDS = 0.01
SEGMENT_PAUSE_SECONDS_MAX = 0.25

# Adjacent layers of a level that are worth a fold at once: a fold for eight writes rewrites a row once for every
# factor of eight in layers. Two are worth one when the branch has been quiet.
FOLD_LAYERS = 8
FOLD_QUIET_SECONDS = 30.0
# Layers that one fold reads at a time.
FOLD_LAYERS_MAX = 16
# What is staged goes into a compacted tree when it costs readers more than a page: so many entries or tombstones
# (a listing skips about 100 a millisecond), bytes or layers; anything, when the branch has been quiet.
L2_ENTRIES = 20_000
L2_TOMBSTONES = 2_000
L2_BYTES = 16 * MIB
L2_LAYERS = 16
L2_QUIET_SECONDS = 60.0
# Under load it waits for this share of what the tree already differs by, because keys all over the tree rewrite all
# of it: a row is then rewritten a few times, not once for every layer.
L2_SHARE = 4
# It waits no longer than for a pause: since the last seal nobody has begun to write, or, where somebody has, for so
# long nothing was sealed. A writer of 100,000 rows in the second time seals more often than that.
L2_PAUSE_SECONDS = 2.0
L2_REST_SECONDS = 6.0
# Staged rows that are worth sealing for compaction while they are still being written to, and after a pause.
SEAL_ROWS = 100_000
SEAL_QUIET_ROWS = 1_000
SEAL_QUIET_SECONDS = 2.0
# Of the frequent calls to embedded stores one in so many is timed: to time each takes as long as the call. A power of two.
SAMPLED_CALLS = 64
# What one compaction reads: a minute's work, so that a lost worker costs no more.
COMPACTION_BYTES_MAX = GIB
COMPACTION_ROWS_MAX = 10_000_000

# A worker renews its lease three times before it runs out.
LEASE_SECONDS = 15.0
HEARTBEAT_SECONDS = 5.0
# Failed attempts of a job before its run is halved, or a run of one layer is parked.
COMPACTION_FAILURES_MAX = 3
# Jobs in one repository's document, a kilobyte or four each; parked ones make room for new ones.
COMPACTION_JOBS_MAX = 1_000
# Layers of jobs that made room are left alone for so long, and so many are remembered.
COMPACTION_HELD_SECONDS = 3600.0
COMPACTION_HELD_MAX = 4_000
# How often a worker with free places asks for jobs: a branch that needs compaction waits no longer than readers notice.
COMPACTION_POLL_SECONDS = 1.0
# How long a worker leaves a repository alone whose stores failed it; twice as long each time, up to the second number.
COMPACTION_REST_SECONDS = 1.0
COMPACTION_REST_SECONDS_MAX = 30.0
# Looking takes no more than one part in so many of a worker's time, however many branches there are.
COMPACTION_POLL_SHARE = 5
# While nothing runs and no branch has got or lost a layer since the last poll, one part in so many, and a pause of the
# second number at most: a worker beside an idle server with 10,000 repositories is idle, too.
COMPACTION_IDLE_SHARE = 100
COMPACTION_IDLE_SECONDS_MAX = 60.0
# Branches whose records one poll decides on: half of them those with the most layers, the others in turn. A tenth of a
# millisecond each, and a worker with two places polls for every two jobs.
COMPACTION_BRANCHES_AT_HAND = 200
# Sealed tokens are counted once. So many counts are remembered (100 bytes each), and so many rows and tokens (a tenth of
# a millisecond each) counted in a poll.
COMPACTION_COUNTS_MAX = 100_000
COMPACTION_COUNTED_ROWS = 2_000_000
COMPACTION_COUNTED_TOKENS = 2_000
# How long one poll looks into staging tokens for rows worth sealing, however many there are: a look counts
# rows one by one. The others wait for the next poll.
COMPACTION_LOOK_SECONDS = 0.1
# Lost swaps of a job document before a poll leaves the repository to whoever wins them.
COMPACTION_SWAPS_MAX = 3

# Operations that may be building a new HEAD of one branch at the same time.
PENDING_MAX = 16
# An owner renews its pending entry at half of this; one that did not is taken for dead.
PENDING_TIMEOUT_SECONDS = 60.0

# Lost swaps in a row before a caller is told: a commit retries longer because it is worth more.
SWAP_ATTEMPTS_MAX = 64
COMMIT_ATTEMPTS_MAX = 64
BACKOFF_SECONDS = 0.002
BACKOFF_MAX_SECONDS = 0.5
# How long whoever wants to move HEAD lets one go first that came earlier and has lost: so many times what its lost try
# took, because the next one need not be as quick; at least long enough for a try on a busy machine; at most as long
# as an entry in `pending` is good for without being renewed, twice.
HEAD_PATIENCE = 3.0
HEAD_PATIENCE_SECONDS = 0.25
HEAD_PATIENCE_SECONDS_MAX = 30.0
# How often it looks meanwhile: eight times in a try of the other one, within these bounds.
HEAD_LOOK_SECONDS = 0.005
HEAD_LOOK_SECONDS_MAX = 0.25

# Readers hold a branch record at most this long before they read it again; what leaves a branch stays readable for it.
GRACE_SECONDS = 15 * 60.0
# What an operator may make of it: never so short that a paused process, or a clock a few minutes off, reads what is gone.
GRACE_SECONDS_MIN = 5 * 60.0
GRACE_SECONDS_MAX = 6 * 3600.0

# The cleaner looks once more for uploads that ended after their repository was deleted with its data. Garbage collection
# takes uploads for over after as long.
LATE_UPLOAD_SECONDS = 24 * 3600.0

# A scan that may outlast the grace renews its pin at half of this; one that did not is taken for dead, and what it held
# back is freed.
PIN_SECONDS = 120.0

# The pause between two rounds of maintenance: often enough that branch records stay short at twenty commits a second, rare
# enough to cost nothing.
MAINTENANCE_SECONDS = 10.0

# Zero-copy copies are remembered for the collector this long.
COPY_LIFETIME_SECONDS = 24 * 3600.0

# An address that was given out to be written and linked later is kept for the client this long.
LINK_LIFETIME_SECONDS = 24 * 3600.0
# An operator may let it be as short as a presigned URL lives.
LINK_LIFETIME_SECONDS_MIN = 15 * 60.0
# A call that claimed an address or an upload may still be staging its entry for so long; a repeat is told to wait. A staged
# write gives up after fewer seconds than this.
CLAIM_SECONDS = 60.0
# A URL that lets anyone read or write one object: long enough to begin a transfer.
PRESIGN_SECONDS = 15 * 60
# Bytes that become a part of an upload by way of this server's memory, because they lie in another repository.
COPY_PART_BYTES_MAX = 64 * MIB
# Entries that one request stages: they are held in memory, and a JSON body ends at about as many anyway.
STAGE_ENTRIES_MAX = 10_000
# Paths of one import, each of which is checked before it begins: a prefix brings any number of objects.
IMPORT_PATHS_MAX = 1_000

# A collector renews its lease three times before it runs out; if it died, the next one waits no longer than this.
GC_LEASE_SECONDS = 60.0
GC_RENEW_SECONDS = 20.0
# How far apart the two marks are that an object must be unreferenced in. Nothing may be on its way from one place to
# another for longer.
GC_GRACE_SECONDS = 24 * 3600.0
# How far the clocks of server, store and collector may differ. More is a clock that nobody looks after.
GC_CLOCK_SLACK_SECONDS = 300.0
# Published marks that can be swept, and runs that are remembered: a hundred bytes each, in a record that is read whole.
GC_MARKS_KEPT = 50
GC_RUNS_KEPT = 50
# One page of uncommitted addresses: about 25 MiB of Parquet, and shorter than any client's patience.
GC_PAGE_ROWS = 1_000_000
GC_PAGE_SECONDS = 15.0
# The numbers of a worker are collected for Prometheus at most this often: no scraper asks for more.
METRICS_SECONDS = 1.0
# The run records of all repositories are read for Prometheus at most this often, and shown of so many repositories: each is
# a dozen time series.
GC_METRICS_SECONDS = 15.0
GC_METRICS_REPOSITORIES = 1_000
# Commits that are condemned in one step.
GC_CONDEMN_BATCH = 500

# A slice of data/ is closed after an hour or this many objects, so that listings can be split and skipped.
SLICE_SECONDS = 3600.0
SLICE_OBJECTS = 50_000
# An operator may choose others: a slice a minute still has many objects, and the number of one has four characters of 32.
SLICE_SECONDS_MIN = 60.0
SLICE_SECONDS_MAX = 6 * 3600.0
SLICE_OBJECTS_MAX = 1_000_000

# Objects younger than this are never garbage: a day covers every address that is given out to be written.
GC_MIN_AGE_SECONDS = 24 * 3600.0
# Optimized runs in a row: each leaves a little garbage to the next clean one.
GC_OPTIMIZED_RUNS_MAX = 9
# More of a namespace than this is not deleted unless somebody expects it.
GC_SHARE_MAX = 0.3
# What is deleted between two looks at the lease and recorded in one file: some seconds, 50 requests of S3.
GC_CHUNK_ROWS = 50_000
# Rows of other lists in one file, about 20 MiB: few files, and each is held whole.
GC_FILE_ROWS = 1_000_000
# Requests of the job to a store at a time, in one process: hides round trips.
GC_REQUESTS_AT_ONCE = 32
# How often a request to a store is repeated before the run fails.
GC_ATTEMPTS_MAX = 5
# Reports of runs are kept this long, and those of marks that still count in any case.
GC_REPORT_SECONDS = 30 * 24 * 3600.0
# Up to so many objects, the engine without a JVM is faster than a JVM starts; it holds about 200 bytes for each.
GC_SMALL_OBJECTS = 5_000_000

# A dump reads everything again when a ref was deleted and its commit collected meanwhile: each time the collector must
# have published another mark.
REFS_DUMP_ATTEMPTS_MAX = 3

# How often a server lists the owners of a namespace: so long an old owner may still acknowledge writes after an adoption.
NAMESPACE_WATCH_SECONDS = 60.0
# What one round of that takes at most, and one repository: a full dump of a million commits is written in less.
NAMESPACE_ROUND_SECONDS = 5.0
# Namespaces that one round of maintenance looks at: those of 200 repositories every minute, of 10,000 every hour.
NAMESPACE_VISITS = 32
NAMESPACE_STEP_SECONDS = 300.0
# How often a server looks whether refs have moved, to dump them into the namespace: what a lost database loses at most.
REFS_DUMP_SECONDS = 300.0
# A dump holds only commits that are new since the one before. A full one comes after so many, or so long, because a
# restore reads all from the last full one.
REFS_DUMP_INCREMENTS_MAX = 200
REFS_DUMP_FULL_SECONDS = 24 * 3600.0
# Dumps are kept so long, and longer where a later one needs them.
REFS_DUMP_KEPT_SECONDS = 7 * 24 * 3600.0
# Commits that one increment looks at, one round trip for each generation. Beyond that a scan of all is cheaper.
REFS_DUMP_WALK_MAX = 5_000

# The record of a task (import, dump, restore) is kept this long after it ended.
TASK_LIFETIME_SECONDS = 24 * 3600.0
# A task that did not say that it is alive for this long belongs to a dead process.
TASK_DEAD_SECONDS = 30.0

# Both the work that is due and the pass over all repositories begin nothing more after this long in one round.
MAINTENANCE_ROUND_SECONDS = 10.0
# What no index leads to is looked for once an hour in each repository (a dead process's creation, old uploads, orphaned
# segments), and once a day in every branch record.
MAINTENANCE_PASS_SECONDS = 3600.0
MAINTENANCE_FULL_SECONDS = 24 * 3600.0
# Repositories that one round visits for that: a pass over 10,000 of them takes the hour.
MAINTENANCE_VISITS = 32
# Records that a step of maintenance decodes in one go: a few milliseconds of the event loop.
MAINTENANCE_PAGE_ITEMS = 250
# One step in one repository takes no longer: storage that does not answer holds up the others only so long. What a step
# has done stays done, and the next round goes on from there.
MAINTENANCE_STEP_SECONDS = 60.0
# What failed is left alone for a while, twice as long each time, up to the second number.
MAINTENANCE_REST_SECONDS = 10.0
MAINTENANCE_REST_SECONDS_MAX = 3600.0
# The process that has the turn renews it with every round. Another one takes over after this and two pauses: a round
# takes no longer than its parts and one step that does not answer.
MAINTENANCE_TURN_SECONDS = 100.0
# A background task that raised an exception, which none should, is started again after this long.
BACKGROUND_RESTART_SECONDS = 1.0

# A repository that is still `creating` after this long was given up by a dead process.
CREATING_TIMEOUT_SECONDS = 300.0

# A process that adopts a namespace says so in the repository's record this often; one that did not for the second time is
# taken for dead, and the next adoption of the namespace goes on with its work.
ADOPTION_RENEW_SECONDS = 10.0
ADOPTION_DEAD_SECONDS = 60.0
# What nothing refers to in an adopted namespace is kept this long, so that people can look through it.
ADOPTION_KEPT_SECONDS = 7 * 24 * 3600.0

# Commits never change, so a process keeps those it has read: about a kilobyte each.
COMMIT_CACHE_ITEMS = 20_000

# Histories that are being paged through at one time in one process; each keeps what it has not shown yet.
LOG_WALKS_KEPT = 32

# Records of repositories, branches and tags kept decoded: a few kilobytes each at the most.
DECODED_RECORDS_MAX = 5_000

# Retired layers that a branch record still lists; older ones move to the clean-up list before their time,
# because the record is written with every commit.
RETIRED_LISTED = 16
# After so many more, the next commit tells maintenance to look at once: a put for every so many commits.
RETIRED_URGENT = 64

# Decoded ranges kept on the local disk for memory-mapping.
CACHE_BYTES_DEFAULT = 10 * GIB

# Ranges mapped by one process at a time: ten million objects or more. Mapping one again costs 0.2 ms, ten times what a read
# of it does. What is mapped and read counts as resident, but the system takes it back whenever somebody needs the room.
MAPPED_RANGES_BYTES_MAX = 4 * GIB
# Tables in a process's own memory, which nobody can take back.
HELD_RANGES_BYTES_MAX = 512 * MIB
# A server looks this often whether refs that were read within the second number show something new, and fetches what came
# with it: often enough that most readers come later, rare enough that one read of all their records costs nothing.
READ_AHEAD_SECONDS = 0.5
READ_AHEAD_USE_SECONDS = 60.0
# No more refs than are read in one go, and no more files for all of them each time: what a reader meets first. Two at a
# time leave threads to those who wait. A larger segment than this is not decoded on suspicion.
READ_AHEAD_REFS_MAX = 64
READ_AHEAD_FILES_MAX = 16
READ_AHEAD_AT_ONCE = 2
READ_AHEAD_BYTES_MAX = 32 * MIB
# Metaranges held as values by one repository's trees: the heads and the commits that are being compared.
OPEN_TREES_MAX = 64

# Ranges of one operation that are read, merged or written at the same time: keeps the cores busy, bounds the memory.
RANGES_AHEAD = 3
RANGE_WRITES_AHEAD = 4

# Conflicts that a merge lists by path; the rest are counted.
CONFLICTS_LISTED_MAX = 1000
# What a merge keeps of its first pass (which looks for conflicts) for its second; the rest is decided again.
MERGE_KEPT_BYTES_MAX = 64 * MIB

# A local put up to this size goes through the journal: one sync for many of them.
SMALL_OBJECT_BYTES_MAX = 64 * KIB

# A local read of so much that is in the page cache takes less than handing it to a thread.
INLINE_READ_BYTES_MAX = 256 * KIB

# One batch of small local puts: bounds how long the last in line waits for the others' files.
SMALL_BATCH_BYTES_MAX = 4 * MIB

# A journal of small puts is replaced at this size: it bounds the replay after a power cut to about a second.
JOURNAL_BYTES_MAX = 64 * MIB

# One DeleteObjects call of S3.
DELETE_BATCH = 1000

# Parts of one multipart upload: the number S3 allows.
PARTS_MAX = 10_000

# An S3 server that says nothing for this long is taken for gone.
S3_TIMEOUT_SECONDS = 30.0

# The longest that S3 honours a presigned URL: a week.
SIGN_SECONDS_MAX = 7 * 24 * 3600

# Descriptors that one open local store holds at most: 16 folders, 4 lock files, its journal, scratch and state folders,
# and 10 lock files more while as many threads change it. The server gives its stores a quarter of its descriptors.
STORE_DESCRIPTORS_MAX = 32
# Stores that one process keeps open, if its descriptors allow as many: enough that a busy installation does not open one
# for each request, which costs five syncs of the disk.
STORES_OPEN_MAX = 256
# A store that nobody has used for so long is closed. It is a third of the grace period, so that every process has closed
# the store of a deleted repository before the cleaner removes its folder.
STORE_IDLE_SECONDS = 300.0
# Namespaces whose resolved places, and repositories whose trees, a process remembers: a few hundred bytes each.
STORE_HANDLES_MAX = 4_096

# Tries of a call to an object store that is safe to repeat, and the wait after the first: two seconds in all.
STORE_ATTEMPTS_MAX = 5
STORE_BACKOFF_SECONDS = 0.1

# A request body of JSON, which is held in memory whole: ten thousand entries with paths and addresses of a kilobyte in all
# fit. Decoding keeps the interpreter lock, so a thread would not spare the event loop: what is decoded is bounded instead.
# Each value costs as much as so many bytes of text, so commas and opening brackets count for that. The worst body that is
# let through takes about 50 ms of a busy machine.
JSON_BODY_BYTES_MAX = 24 * MIB
JSON_VALUE_BYTES = 128
# A body where no credentials are asked for: set-up with the longest secret is 2 KiB.
ANONYMOUS_BODY_BYTES_MAX = 8 * KIB
# JSON and XML bodies that one worker holds at a time: eight of the largest. The last quarter is kept for small bodies,
# so that a few large ones do not shut out everybody else.
BODIES_HELD_BYTES_MAX = 256 * MIB
SMALL_BODY_BYTES_MAX = 64 * KIB

# Part size of a streaming upload, and the read size of a streaming download.
PART_BYTES = 8 * MIB
# Parts of one such upload that are on their way at a time: one is sent, one is hashed, and one arrives.
PARTS_IN_FLIGHT = 3
STREAM_CHUNK_BYTES = 1 * MIB

# The longest id of a user, a group or a policy that lakeFS takes.
AUTH_ID_LENGTH_MAX = 127
# What somebody says about a group, which every listing shows.
GROUP_DESCRIPTION_LENGTH_MAX = 1024
# Groups, policies and access keys of one user sit in its record, which is read whole at every sign-in.
AUTH_LINKS_MAX = 1000
# The longest ARN: an address of a place, and what comes before it.
RESOURCE_CHARACTERS_MAX = PLACE_BYTES_MAX + KIB
# A policy is compiled when somebody it applies to is first seen: a millisecond for as much text as this.
POLICY_CHARACTERS_MAX = 64 * KIB
# Each of them costs 20 microseconds to compile.
POLICY_WILDCARDS_MAX = 1000
# An access key's secret that somebody chose: long enough for any generator, short enough for a header.
SECRET_LENGTH_MAX = 1024
# Who was recently recognised by one process, about a kilobyte each.
AUTH_CACHE_ITEMS = 10_000
# How long a process that shares its database over a network trusts what it knows of users and keys.
AUTH_RECHECK_SECONDS = 5.0
# How long a login lasts: a week, as lakeFS has it.
LOGIN_SECONDS = 7 * 24 * 3600
# Sessions of one user that were ended before their time, each listed until it would have expired. If there are more, all
# that were opened before the newest one left out end too.
ENDED_SESSIONS_MAX = 64
# Wrong secrets for one access key from one client before it has to wait, and the seconds in which so many are forgiven: no
# person mistypes that often, and guessing a secret takes for ever.
LOGIN_FAILURES_MAX = 10
LOGIN_FAILURES_SECONDS = 60.0
# Pairs of client and access key whose failures a worker remembers, about 200 bytes each.
LOGIN_FAILURES_KEPT = 10_000
# Changes of users, keys and policies that are remembered by nonce: more than can pass while one of them waits
# to learn its outcome.
AUTH_CHANGES_REMEMBERED = 64

# How far the clock of a client of the S3 endpoint may be off: what Amazon allows.
S3_CLOCK_SKEW_SECONDS = 900
# Signing keys kept with a secret: presigned URLs live a week, and a client uses one region or two.
SIGNING_KEYS_KEPT = 16
# Presigned URLs whose signature need not be computed again: as many as are in use at a time. A request with a longer head
# than the second number is verified each time: clients send one or two KiB.
PRESIGNED_URLS_KEPT = 4096
PRESIGNED_HEAD_BYTES_KEPT = 4 * KIB
# A piece of a body up to this size is hashed faster than it is handed to a thread.
INLINE_HASH_BYTES_MAX = 256 * KIB
# The line before a chunk of a body: a size and a signature.
CHUNK_LINE_BYTES_MAX = 256
# The most that Amazon takes in one PUT, so no chunk of one is larger.
CHUNK_BYTES_MAX = 5 * GIB
# What follows the last chunk: a few checksums and a signature.
TRAILER_BYTES_MAX = 4 * KIB

# A document that a client of the S3 endpoint sends: a thousand keys to delete, ten thousand parts to complete.
S3_XML_BYTES_MAX = 4 * MIB
# Elements of such a document: ten thousand parts with their number, ETag and every checksum.
S3_XML_ELEMENTS_MAX = 100_000
# Documents up to this size are parsed on the event loop: 6 ms at worst, and 0.1 ms for what clients send.
S3_XML_BYTES_INLINE = 16 * KIB
# User metadata that Amazon takes with an object.
S3_METADATA_BYTES_MAX = 2 * KIB
# The same as it is sent: words of RFC 2047 take up to four times what they say.
S3_METADATA_SENT_BYTES_MAX = 16 * KIB
# One PUT of an object or a part, and the least size of a part that is not the last: Amazon's numbers.
S3_PUT_BYTES_MAX = 5 * GIB
S3_PART_BYTES_MIN = 5 * MIB
# Uploads in parts that nobody completed are given up after this long; that one was completed is remembered this long.
S3_UPLOAD_LIFETIME_SECONDS = 7 * 24 * 3600.0
S3_COMPLETED_SECONDS = 24 * 3600.0
# A request that stages a segment under an id is remembered this long: longer than any client retries.
SEGMENT_CALL_SECONDS = 24 * 3600.0

# A client gives up on a server that says nothing for this long; what changes HEAD of a large branch takes longer.
CLIENT_TIMEOUT_SECONDS = 60.0
CLIENT_HEAD_TIMEOUT_SECONDS = 900.0
CLIENT_CONNECT_SECONDS = 10.0
# Tries of a request that is safe to repeat, and the wait after the first (it doubles): three seconds in all.
CLIENT_ATTEMPTS_MAX = 5
CLIENT_BACKOFF_SECONDS = 0.2
# A server may ask a client to wait; a longer wait than this is for the caller to decide.
CLIENT_RETRY_AFTER_SECONDS_MAX = 30.0
# Files of one folder that are sent or fetched at a time: hides round trips, and spares the server.
TRANSFERS_AT_ONCE = 8
# How often a client asks how an import goes: soon at first, then this seldom.
CLIENT_POLL_SECONDS = 0.1
CLIENT_POLL_SECONDS_MAX = 2.0

# The head of a request: twice what common proxies let through, and it is held in memory whole.
HTTP_HEAD_BYTES_MAX = 64 * KIB
# Its target: a path of 1,024 bytes takes 3 KiB when every byte is escaped, a presigned query two more, page tokens the same.
HTTP_TARGET_BYTES_MAX = 32 * KIB
# Its fields: user metadata of 16 KiB in short ones is a few hundred.
HTTP_FIELDS_MAX = 1000
# The wait for a head: nobody types one. A client that sends a byte now and then holds a connection no longer than this.
HTTP_HEAD_SECONDS = 30.0
# An unused connection is kept a little longer than clients keep theirs, so that it is mostly they who close it.
HTTP_IDLE_SECONDS = 75.0
# Somebody who takes or sends nothing for this long in the middle of a body is gone.
HTTP_STALL_SECONDS = 300.0
# How long a client may still send, and is not listened to, after the answer that ends its connection: closed at once,
# the connection would be reset, and the answer lost on the way.
HTTP_LINGER_SECONDS = 5.0
# Bytes of a body that wait for the application before the client is made to wait: four reads of a socket.
HTTP_BODY_WAITING_BYTES = 256 * KIB
# The rest of a body that nobody wants is read up to here to keep the connection; a new one costs less than more.
HTTP_DRAIN_BYTES_MAX = 256 * KIB
# A body up to this size is copied behind its head, so that both leave in one piece.
HTTP_JOIN_BYTES_MAX = 64 * KIB
# Connections of one worker, about 10 KiB each when idle, and never more than half of its file descriptors.
HTTP_CONNECTIONS_MAX = 10_000
# Connections beyond those, which are told to come back and get some time to hear it: no more than a quarter of them either.
HTTP_REFUSED_MAX = 64
# A TLS handshake counts as a connection, and takes a few round trips.
HTTP_TLS_SECONDS = 10.0
# Texts of heads (hosts, dates, credentials, types) that each function remembers with what it said of them, and the longest
# of them: about a MiB for each function. Anyone may send them.
MEMO_ITEMS_MAX = 1024
MEMO_TEXT_LENGTH_MAX = 256
# Requests that a client sends ahead: clients that do so at all send a few.
HTTP_PIPELINE_MAX = 64
# What one worker holds of requests whose heads are arriving, that wait for their turn, or whose bodies wait for the
# application. At half of it, clients wait before they may send more; beyond it, a request whose body nobody has asked for
# yet is refused, which is all that an anonymous client can send. An upload that was let in is refused at four times as much.
HTTP_HELD_BYTES_MAX = 64 * MIB
HTTP_HELD_UPLOADS_FACTOR = 4
# A request of no more than this is not counted.
HTTP_UNCOUNTED_BYTES = 8 * KIB
# Connections that wait to be accepted; the kernel may allow fewer.
HTTP_BACKLOG = 1024
# A worker that died comes back at once, one that died young a little later each time.
RESPAWN_SECONDS = 0.1
RESPAWN_SECONDS_MAX = 5.0
# A worker that did not end in the time it was given is killed this much later: it has aborted what hung by then.
WORKER_END_SECONDS = 5.0

assert SEALED_LAYERS_SLOWDOWN < SEALED_LAYERS_MAX
assert FOLD_LAYERS <= FOLD_LAYERS_MAX <= L2_LAYERS < SEALED_LAYERS_SLOWDOWN
assert L2_PAUSE_SECONDS <= L2_REST_SECONDS <= L2_QUIET_SECONDS
assert HEARTBEAT_SECONDS * 3 <= LEASE_SECONDS
assert SEGMENT_GROUP_ROWS_MIN < SEGMENT_GROUP_ROWS
assert L2_LAYERS < SEGMENT_LAYERS_MAX < SEALED_LAYERS_SLOWDOWN
assert BATCH_ROWS_MAX < SEGMENT_BATCH_ROWS <= SEGMENT_SHARED_ROWS <= SEGMENT_ROWS_MAX
assert SEGMENT_SHARED_DATASETS <= SEGMENT_DATASETS_MAX
assert GC_RENEW_SECONDS * 3 <= GC_LEASE_SECONDS
assert PATH_BYTES_MAX < KV_KEY_BYTES_MAX
assert LMDB_SCAN_STEP_BYTES <= SCAN_PAGE_BYTES <= 4 * KV_VALUE_BYTES_MAX < GIB
assert PENDING_TIMEOUT_SECONDS < GRACE_SECONDS
assert 2 * HEAD_PATIENCE_SECONDS_MAX <= PENDING_TIMEOUT_SECONDS
assert PIN_SECONDS < GRACE_SECONDS
assert GRACE_SECONDS_MAX < SEGMENT_CALL_SECONDS
assert (
    2 * MAINTENANCE_ROUND_SECONDS + NAMESPACE_ROUND_SECONDS + MAINTENANCE_STEP_SECONDS
    < MAINTENANCE_TURN_SECONDS
)
assert KV_PARTITION_BYTES_MAX + KV_KEY_BYTES_MAX < 2_704
assert POSTGRES_STATEMENT_SECONDS < POSTGRES_REPLY_SECONDS
assert POSTGRES_CONNECT_SECONDS + POSTGRES_RECONNECT_SECONDS <= 5
