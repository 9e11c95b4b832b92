/* ping PORT JOB [AUTHORITY]: the least that a program can do before it waits for the steps of a
   job. It connects, over TLS if there is a file with an authority, sends PING, and pops as an agent
   does. */
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <stdlib.h>

#include "agent/frontends/redis/connection/tls.h"

static ssize_t read_tls(redisContext *redis, char *bytes, size_t size) {
  struct transport *transport = redis->privctx;
  ssize_t length;
  do
    length = transport->type->read(transport, bytes, size);
  while (length == TRANSPORT_WAITS); /* the socket blocks */
  return length > 0 ? length : -1;
}

static ssize_t write_tls(redisContext *redis) {
  struct transport *transport = redis->privctx;
  struct iovec piece = {redis->obuf, sdslen(redis->obuf)};
  return transport->type->write(transport, &piece, 1);
}

/* Returns whether the certificate is valid. */
static int secure(redisContext *redis, const char *authority) {
  static const redisContextFuncs functions = {.read = read_tls, .write = write_tls};
  struct error error;
  struct tls *tls = tls_new(&(struct tls_options){.ca_file = authority}, &error);
  if (tls == NULL)
    return 0;
  struct transport *transport = tls_transport_new(tls, redis->fd, "127.0.0.1");
  redis->privctx = transport;
  redis->funcs = &functions;
  int result;
  do
    result = transport->type->handshake(transport);
  while (result == TRANSPORT_WAITS);
  return result == 0;
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4)
    return 64;
  redisContext *redis = redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10));
  if (redis == NULL || redis->err != 0 || (argc == 4 && !secure(redis, argv[3])) ||
      redisCommand(redis, "PING") == NULL)
    return 1;
  void *step = redisCommand(redis, "BLMOVE sandbox:%s:in sandbox:%s:inflight RIGHT LEFT 0", argv[2],
                            argv[2]);
  return step == NULL;
}
