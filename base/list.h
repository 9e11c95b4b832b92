#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An intrusive doubly linked list: each element has a struct list_node as a member, so the list
   allocates nothing, and an element leaves it in constant time. A list of zeros is empty. */
struct list_node {
  struct list_node *next, *previous;
};

struct list {
  struct list_node *first, *last;
};

static inline void list_append(struct list *self, struct list_node *node) {
  *node = (struct list_node){.previous = self->last};
  *(self->last != NULL ? &self->last->next : &self->first) = node;
  self->last = node;
}

static inline void list_remove(struct list *self, struct list_node *node) {
  *(node->previous != NULL ? &node->previous->next : &self->first) = node->next;
  *(node->next != NULL ? &node->next->previous : &self->last) = node->previous;
}

/* Returns the element that has the node at this offset; NULL for no node. */
static inline void *list_element(const struct list_node *node, size_t offset) {
  return node != NULL ? (char *)node - offset : NULL;
}

/* The element of this type around a node, which is its MEMBER; NULL for no node. */
#define LIST_ELEMENT(NODE, TYPE, MEMBER) ((TYPE *)list_element(NODE, offsetof(TYPE, MEMBER)))

/* Visits the elements from the first to the last. The body may remove the current element, and
   append others. */
/* NOLINTBEGIN(bugprone-macro-parentheses): they declare variables and name a member */
#define LIST_FOR_EACH(TYPE, ELEMENT, LIST, MEMBER)                                                 \
  for (TYPE *ELEMENT = LIST_ELEMENT((LIST)->first, TYPE, MEMBER), *ELEMENT##_next;                 \
       ELEMENT != NULL &&                                                                          \
       (ELEMENT##_next = LIST_ELEMENT(ELEMENT->MEMBER.next, TYPE, MEMBER), true);                  \
       ELEMENT = ELEMENT##_next)
/* NOLINTEND(bugprone-macro-parentheses) */
