#pragma once

/*
 * A proxy in front of an agent with --http on a socket file. It cuts its first connections, each
 * when this number of bytes was forwarded. It is a separate process, which dies with the test.
 *
 *   const struct cutter_plan plan = {.connections = 2, .reply_bytes = 99};
 *   struct cutter *cutter = cutter_start(http->address, path, plan);
 *   … a client at the socket file `path`
 *   assert_int_equal(cutter_stop(cutter), 2);
 */
struct cutter;

struct cutter_plan {
  int connections;                 /* that are cut */
  long request_bytes, reply_bytes; /* 0: this direction does not cut */
};

/* `address` is "unix:PATH". An earlier file `path` is replaced. */
struct cutter *cutter_start(const char *address, const char *path, struct cutter_plan plan);

/* Returns how many connections were cut. */
int cutter_stop(struct cutter *self);
