// SPDX-License-Identifier: BSD-3-Clause
// A secondary process that asks for a rule's counter while the primary is busy with the port. The
// primary starts port 0 and leaves the address of its rule in a memzone; at SIGUSR1 it dumps its
// rules to a stream that accepts nothing until SIGUSR2. The secondary asks at SIGUSR1, and at
// SIGUSR2 on EAL's interrupt thread.
#define _GNU_SOURCE
#include "ports.h"

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <signal.h>

enum { PORT = 0 };

static volatile sig_atomic_t asked, held;
static void ask(int number) { asked = number; }
static void let_go(int number) {
    (void)number;
    held = 0;
}

static ssize_t take_dump(void* cookie, const char* text, size_t size) {
    (void)cookie, (void)text;
    if (held) say("busy");
    while (held)
        rte_delay_us_sleep(1000);
    return (ssize_t)size;
}

static int primary(void) {
    struct rte_mempool* const pool = make_pool("rx", 1023);
    struct rte_flow_error error;
    FILE* const file = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take_dump});
    setvbuf(file, NULL, _IONBF, 0);
    signal(SIGUSR1, ask);
    signal(SIGUSR2, let_go);
    if (pool == NULL || !leave_rule(start_port(PORT, pool, NULL))) return 2;
    say("the rule is there");
    for (;;) {
        if (!asked) continue;
        asked = 0;
        held = 1;
        if (rte_flow_dev_dump(PORT, NULL, file, &error) != 0) return 3;
        say("idle");
    }
}

static void query(void* unused) {
    const struct rte_flow_action count[] = {{.type = RTE_FLOW_ACTION_TYPE_COUNT},
                                            {.type = RTE_FLOW_ACTION_TYPE_END}};
    struct rte_flow_query_count data = {0};
    struct rte_flow_error error = {0};
    (void)unused;
    say("asking");
    const uint64_t start = rte_get_timer_cycles();
    const int result = rte_flow_query(PORT, rule_of_primary(), count, &data, &error);
    const bool waited = rte_get_timer_cycles() - start > rte_get_timer_hz();
    printf("answer: %d, %s: %s\n", result, waited ? "after more than a second" : "soon",
           error.message ? error.message : "");
    fflush(stdout);
}

static int secondary(void) {
    signal(SIGUSR1, ask);
    signal(SIGUSR2, ask);
    say("ready");
    for (;;) {
        const int question = asked;
        if (question == 0) continue;
        asked = 0;
        if (question == SIGUSR1)
            query(NULL);
        else if (rte_eal_alarm_set(1, query, NULL) != 0)
            return 3;
    }
}

int main(int argc, char** argv) {
    if (rte_eal_init(argc, argv) < 0) return 1;
    return rte_eal_process_type() == RTE_PROC_PRIMARY ? primary() : secondary();
}
