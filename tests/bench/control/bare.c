#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/bench/control/bench.h"

struct bare {
    sqlite3 *db;
    sqlite3_stmt *insert;
    char path[512];
};

struct bare *bare_open(const char *directory)
{
    struct bare *bare = allocate(1, sizeof *bare);
    (void)snprintf(bare->path, sizeof bare->path, "%s/bare.db", directory);
    static const char setup[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                                "CREATE TABLE row (id INTEGER PRIMARY KEY, text TEXT NOT NULL);";
    if (sqlite3_open(bare->path, &bare->db) != SQLITE_OK ||
        sqlite3_exec(bare->db, setup, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(bare->db, "INSERT INTO row (text) VALUES ('one row of a few dozen bytes')", -1,
                           &bare->insert, NULL) != SQLITE_OK) {
        die("%s: %s", bare->path, sqlite3_errmsg(bare->db));
    }
    return bare;
}

void bare_close(struct bare *bare)
{
    (void)sqlite3_finalize(bare->insert);
    (void)sqlite3_close(bare->db);
    static const char *const endings[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char path[sizeof bare->path + 8];
        (void)snprintf(path, sizeof path, "%s%s", bare->path, endings[i]);
        (void)unlink(path);
    }
    free(bare);
}

double bare_commits(struct bare *bare, size_t count, struct samples *samples)
{
    int64_t begin = clock_monotonic_ns();
    int64_t last = begin;
    for (size_t i = 0; i < count; i++) {
        if (sqlite3_step(bare->insert) != SQLITE_DONE || sqlite3_reset(bare->insert) != SQLITE_OK) {
            die("%s: %s", bare->path, sqlite3_errmsg(bare->db));
        }
        int64_t now = clock_monotonic_ns();
        samples_add(samples, now - last);
        last = now;
    }
    return (double)count * 1e9 / (double)(last - begin);
}
