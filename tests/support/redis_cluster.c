#include "tests/support/redis_cluster.h"

#include "tests/test.h"

enum { SLOTS = 16384, EXTRA = 7 };

struct node {
  struct redis_server *server;
  redisContext *redis;
  char bus_port[16];
  const char *extra[EXTRA];
  char id[64];
};

struct redis_cluster {
  struct node nodes[REDIS_CLUSTER_NODES];
  int slot; /* the slot that is being moved */
  int from;
  int to;
};

/* Runs one command, which must not fail; the caller frees the reply. */
static redisReply *ask(struct node *node, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = redisvCommand(node->redis, format, arguments);
  va_end(arguments);
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    fail_msg("%s: %s", format, reply == NULL ? node->redis->errstr : reply->str);
  return reply;
}

static long long ask_number(struct node *node, const char *format, const char *argument) {
  redisReply *reply = ask(node, format, argument);
  assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
  long long number = reply->integer;
  freeReplyObject(reply);
  return number;
}

/* The cluster bus has a separate port, because the server's port plus 10,000 may be no port. */
static void start_node(struct node *node) {
  snprintf(node->bus_port, sizeof node->bus_port, "%d", redis_server_free_port());
  const char *const extra[EXTRA] = {"--cluster-enabled",      "yes",
                                    "--cluster-port",         node->bus_port,
                                    "--cluster-node-timeout", "2000"};
  memcpy(node->extra, extra, sizeof extra);
  node->server = redis_server_start(node->extra);
  node->redis = redis_server_connect(node->server);
  redisReply *reply = ask(node, "CLUSTER MYID");
  snprintf(node->id, sizeof node->id, "%s", reply->str);
  freeReplyObject(reply);
}

/* Whether all nodes know each other, and report no problem. */
static bool is_well(void *context) {
  struct redis_cluster *self = context;
  char known[32];
  snprintf(known, sizeof known, "cluster_known_nodes:%d\r\n", REDIS_CLUSTER_NODES);
  bool well = true;
  for (int i = 0; i < REDIS_CLUSTER_NODES; i++) {
    redisContext *redis = redis_server_connect(self->nodes[i].server);
    redisReply *reply = redisCommand(redis, "CLUSTER INFO");
    well &= reply != NULL && strstr(reply->str, "cluster_state:ok\r\n") != NULL &&
            strstr(reply->str, "cluster_slots_ok:16384\r\n") != NULL &&
            strstr(reply->str, known) != NULL;
    freeReplyObject(reply);
    redisFree(redis);
  }
  return well;
}

void redis_cluster_wait(const struct redis_cluster *self) {
  if (!wait_until(is_well, (void *)(uintptr_t)self, WAIT_BOUND_MS))
    fail_msg("the cluster does not come together");
}

struct redis_cluster *redis_cluster_start(void) {
  struct redis_cluster *self = calloc(1, sizeof *self);
  assert_non_null(self);
  for (int i = 0; i < REDIS_CLUSTER_NODES; i++) {
    struct node *node = &self->nodes[i];
    start_node(node);
    freeReplyObject(ask(node, "CLUSTER ADDSLOTSRANGE %d %d", SLOTS * i / REDIS_CLUSTER_NODES,
                        SLOTS * (i + 1) / REDIS_CLUSTER_NODES - 1));
    /* Different epochs, so that no two nodes have to compare their claims. */
    freeReplyObject(ask(node, "CLUSTER SET-CONFIG-EPOCH %d", i + 1));
    if (i > 0)
      freeReplyObject(ask(node, "CLUSTER MEET 127.0.0.1 %d %s",
                          redis_server_port(self->nodes[0].server), self->nodes[0].bus_port));
  }
  redis_cluster_wait(self);
  return self;
}

void redis_cluster_stop(struct redis_cluster *self) {
  if (self == NULL)
    return;
  for (int i = 0; i < REDIS_CLUSTER_NODES; i++) {
    redisFree(self->nodes[i].redis);
    redis_server_stop(self->nodes[i].server);
  }
  free(self);
}

struct redis_server *redis_cluster_node(const struct redis_cluster *self, int number) {
  return self->nodes[number].server;
}

int redis_cluster_owner(const struct redis_cluster *self, const char *key) {
  for (int i = 0; i < REDIS_CLUSTER_NODES; i++) {
    redisContext *redis = redis_server_connect(self->nodes[i].server);
    redisReply *reply = redisCommand(redis, "TYPE %s", key);
    assert_non_null(reply);
    bool owns = reply->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    redisFree(redis);
    if (owns)
      return i;
  }
  fail_msg("nobody has %s", key);
  return -1;
}

void redis_cluster_begin_move(struct redis_cluster *self, const char *key, int to) {
  self->from = redis_cluster_owner(self, key);
  self->to = to;
  assert_int_not_equal(self->from, to);
  struct node *source = &self->nodes[self->from];
  struct node *target = &self->nodes[to];
  self->slot = (int)ask_number(source, "CLUSTER KEYSLOT %s", key);
  freeReplyObject(ask(target, "CLUSTER SETSLOT %d IMPORTING %s", self->slot, source->id));
  freeReplyObject(ask(source, "CLUSTER SETSLOT %d MIGRATING %s", self->slot, target->id));
}

bool redis_cluster_move_key(struct redis_cluster *self, const char *key) {
  struct node *source = &self->nodes[self->from];
  redisReply *keys = ask(source, "CLUSTER GETKEYSINSLOT %d 1", self->slot);
  bool is_there = keys->elements > 0;
  if (is_there)
    freeReplyObject(ask(source, "MIGRATE 127.0.0.1 %d %s 0 5000",
                        redis_server_port(self->nodes[self->to].server),
                        key != NULL ? key : keys->element[0]->str));
  freeReplyObject(keys);
  return is_there;
}

void redis_cluster_end_move(struct redis_cluster *self) {
  const char *id = self->nodes[self->to].id;
  freeReplyObject(ask(&self->nodes[self->to], "CLUSTER SETSLOT %d NODE %s", self->slot, id));
  freeReplyObject(ask(&self->nodes[self->from], "CLUSTER SETSLOT %d NODE %s", self->slot, id));
  for (int i = 0; i < REDIS_CLUSTER_NODES; i++)
    if (i != self->to && i != self->from)
      freeReplyObject(ask(&self->nodes[i], "CLUSTER SETSLOT %d NODE %s", self->slot, id));
}
