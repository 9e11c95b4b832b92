#pragma once

#include <stdbool.h>

#include "tests/support/directory.h"

/*
 * The reverse proxy of Debian's package nginx, in front of an agent with `--http unix:PATH`. It
 * listens on a socket file in the directory and dies with the test.
 *
 *   struct nginx *nginx = nginx_start(&directory, "agent.sock", NGINX_DEFAULT);
 *   struct http_client *client = http_client_connect(nginx_address(nginx));
 *   nginx_stop(nginx);
 *
 * Clients that send nothing for a second are disconnected.
 */
struct nginx;

enum nginx_mode {
  NGINX_DEFAULT,   /* HTTP/1.0, a connection for each request; a body is forwarded as a whole */
  NGINX_KEEPALIVE, /* HTTP/1.1, one connection for many requests */
  NGINX_UNBUFFERED /* the same, and a body is forwarded as it arrives */
};

struct nginx *nginx_start(const struct directory *directory, const char *agent,
                          enum nginx_mode mode);

/* Ends it and removes its files. */
void nginx_stop(struct nginx *self);

/* For http_client_connect. */
const char *nginx_address(const struct nginx *self);

/* The number of requests that it has forwarded and that are over. */
int nginx_count_forwarded(const struct nginx *self);

/* The number of requests with this request line, without its version, that are over. */
int nginx_count_seen(const struct nginx *self, const char *method_and_target);
