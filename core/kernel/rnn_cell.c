/* The recurrent cells, after the products with their weights: LSTM (Hochreiter and Schmidhuber
 * 1997, with forget gates) and GRU (Cho et al. 2014, with the reset gate behind the product),
 * forward and backward.
 *
 * Operands are contiguous [B, gates H], gates side by side: input, forget, cell, output of the
 * LSTM; reset, update, new of the GRU. A row is worked off in tiles, each gate of a tile in the
 * compute type. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/kernel.h"
#include "kernel/rows.h"
#include "tn/tile/math.h"

enum { TILE = 256, GRAIN = 2048 };

typedef struct cell {
    const tn_launch_desc *launch;
    int64_t batch, size;
} cell;

#define SIGMOID_f32(x) tn_sigmoid_f32(x)
#define SIGMOID_f64(x) (1 / (1 + exp(-(x))))
#define TANH_f32(x) tn_tanh_f32(x)
#define TANH_f64(x) tanh(x)

static bool present(const tn_operand *operand)
{
    return !(operand->flags & TN_OPERAND_ABSENT);
}

/* Where `column` of gate `gate` of a row of `gates` gates lies; a bias has one row. */
static char *place(const cell *c, const tn_operand *operand, int64_t row, int gates, int gate,
                   int64_t column)
{
    int64_t index = (row * gates + gate) * c->size + column;
    return (char *)operand->data + index * (int64_t)tn_dtype_size(operand->dtype);
}

#define LOAD(S, operand, row, gates, gate, out)                                                    \
    TN_ISA_NAME(tn_load_##S)(place(c, operand, row, gates, gate, column),                          \
                             (int64_t)tn_dtype_size((operand)->dtype), (operand)->dtype, out, n)
#define STORE(S, operand, row, gates, gate, in)                                                    \
    TN_ISA_NAME(tn_store_##S)(place(c, operand, row, gates, gate, column),                         \
                              (int64_t)tn_dtype_size((operand)->dtype), (operand)->dtype, in, n)

/* A gate's sum of products and bias, of `sides` from operand `first` on. */
#define DEFINE_GATE(T, S)                                                                          \
    static void gate_##S(const cell *c, int first, int sides, int64_t row, int gates, int gate,    \
                         int64_t column, int64_t n, T *out)                                        \
    {                                                                                              \
        T more[TILE];                                                                              \
        LOAD(S, tn_input(c->launch, first), row, gates, gate, out);                                \
        if (sides == 2) {                                                                          \
            LOAD(S, tn_input(c->launch, first + 1), row, gates, gate, more);                       \
            TN_EACH(i, n) out[i] += more[i];                                                       \
        }                                                                                          \
        for (int side = 0; side < sides; side++) {                                                 \
            const tn_operand *bias = tn_input(c->launch, 3 + first + side);                        \
            if (!present(bias))                                                                    \
                continue;                                                                          \
            LOAD(S, bias, 0, gates, gate, more);                                                   \
            TN_EACH(i, n) out[i] += more[i];                                                       \
        }                                                                                          \
    }

#define DEFINE_LSTM(T, S)                                                                          \
    static void lstm_tile_##S(const cell *c, int64_t row, int64_t column, int64_t n)               \
    {                                                                                              \
        T gates[4][TILE], state[TILE], y[TILE];                                                    \
        const tn_operand *activated = tn_output(c->launch, 2);                                     \
        for (int gate = 0; gate < 4; gate++) {                                                     \
            T *g = gates[gate];                                                                    \
            gate_##S(c, 0, 2, row, 4, gate, column, n, g);                                         \
            if (gate == 2)                                                                         \
                TN_EACH(i, n) g[i] = TANH_##S(g[i]);                                               \
            else                                                                                   \
                TN_EACH(i, n) g[i] = SIGMOID_##S(g[i]);                                            \
            STORE(S, activated, row, 4, gate, g);                                                  \
        }                                                                                          \
        LOAD(S, tn_input(c->launch, 2), row, 1, 0, state);                                         \
        TN_EACH(i, n) state[i] = gates[1][i] * state[i] + gates[0][i] * gates[2][i];               \
        TN_EACH(i, n) y[i] = gates[3][i] * TANH_##S(state[i]);                                     \
        STORE(S, tn_output(c->launch, 0), row, 1, 0, y);                                           \
        STORE(S, tn_output(c->launch, 1), row, 1, 0, state);                                       \
    }                                                                                              \
    static void lstm_backward_tile_##S(const cell *c, int64_t row, int64_t column, int64_t n)      \
    {                                                                                              \
        T gates[4][TILE], grad_y[TILE] = {0}, grad_state[TILE] = {0}, before[TILE], after[TILE];   \
        for (int gate = 0; gate < 4; gate++)                                                       \
            LOAD(S, tn_input(c->launch, 4), row, 4, gate, gates[gate]);                            \
        if (present(tn_input(c->launch, 0)))                                                       \
            LOAD(S, tn_input(c->launch, 0), row, 1, 0, grad_y);                                    \
        if (present(tn_input(c->launch, 1)))                                                       \
            LOAD(S, tn_input(c->launch, 1), row, 1, 0, grad_state);                                \
        LOAD(S, tn_input(c->launch, 2), row, 1, 0, before);                                        \
        LOAD(S, tn_input(c->launch, 3), row, 1, 0, after);                                         \
        TN_EACH(i, n)                                                                              \
        {                                                                                          \
            T in = gates[0][i], forget = gates[1][i], new = gates[2][i], out = gates[3][i];        \
            T squashed = TANH_##S(after[i]);                                                       \
            T total = grad_state[i] + grad_y[i] * out * (1 - squashed * squashed);                 \
            gates[0][i] = total * new * in * (1 - in);                                             \
            gates[1][i] = total * before[i] * forget * (1 - forget);                               \
            gates[2][i] = total * in * (1 - new * new);                                            \
            gates[3][i] = grad_y[i] * squashed * out * (1 - out);                                  \
            grad_state[i] = total * forget;                                                        \
        }                                                                                          \
        for (int gate = 0; gate < 4; gate++)                                                       \
            STORE(S, tn_output(c->launch, 0), row, 4, gate, gates[gate]);                          \
        STORE(S, tn_output(c->launch, 1), row, 1, 0, grad_state);                                  \
    }

/* The workspace keeps the three gates, hx, and the hidden side's share of the new gate. */
#define DEFINE_GRU(T, S)                                                                           \
    static void gru_tile_##S(const cell *c, int64_t row, int64_t column, int64_t n)                \
    {                                                                                              \
        T kept[5][TILE], y[TILE];                                                                  \
        T *reset = kept[0], *update = kept[1], *new = kept[2], *before = kept[3],                  \
          *hidden = kept[4];                                                                       \
        gate_##S(c, 0, 2, row, 3, 0, column, n, reset);                                            \
        gate_##S(c, 0, 2, row, 3, 1, column, n, update);                                           \
        gate_##S(c, 0, 1, row, 3, 2, column, n, new);                                              \
        gate_##S(c, 1, 1, row, 3, 2, column, n, hidden);                                           \
        LOAD(S, tn_input(c->launch, 2), row, 1, 0, before);                                        \
        TN_EACH(i, n) reset[i] = SIGMOID_##S(reset[i]);                                            \
        TN_EACH(i, n) update[i] = SIGMOID_##S(update[i]);                                          \
        TN_EACH(i, n) new[i] = TANH_##S(new[i] + reset[i] * hidden[i]);                            \
        TN_EACH(i, n) y[i] = new[i] + update[i] * (before[i] - new[i]);                            \
        STORE(S, tn_output(c->launch, 0), row, 1, 0, y);                                           \
        for (int k = 0; k < 5; k++)                                                                \
            STORE(S, tn_output(c->launch, 1), row, 5, k, kept[k]);                                 \
    }                                                                                              \
    static void gru_backward_tile_##S(const cell *c, int64_t row, int64_t column, int64_t n)       \
    {                                                                                              \
        T kept[5][TILE], grad[TILE];                                                               \
        for (int k = 0; k < 5; k++)                                                                \
            LOAD(S, tn_input(c->launch, 1), row, 5, k, kept[k]);                                   \
        LOAD(S, tn_input(c->launch, 0), row, 1, 0, grad);                                          \
        TN_EACH(i, n)                                                                              \
        {                                                                                          \
            T reset = kept[0][i], update = kept[1][i], new = kept[2][i];                           \
            T before = kept[3][i], hidden = kept[4][i], g = grad[i];                               \
            T grad_new = g * (1 - update) * (1 - new *new);                                        \
            kept[0][i] = grad_new * hidden * reset * (1 - reset);                                  \
            kept[1][i] = g * (before - new) * update * (1 - update);                               \
            kept[2][i] = grad_new;                                                                 \
            kept[3][i] = grad_new * reset;                                                         \
            grad[i] = g * update;                                                                  \
        }                                                                                          \
        for (int gate = 0; gate < 3; gate++) {                                                     \
            STORE(S, tn_output(c->launch, 0), row, 3, gate, kept[gate]);                           \
            STORE(S, tn_output(c->launch, 1), row, 3, gate, kept[gate == 2 ? 3 : gate]);           \
        }                                                                                          \
        STORE(S, tn_output(c->launch, 2), row, 1, 0, grad);                                        \
    }
DEFINE_GATE(float, f32)
DEFINE_GATE(double, f64)
DEFINE_LSTM(float, f32)
DEFINE_LSTM(double, f64)
DEFINE_GRU(float, f32)
DEFINE_GRU(double, f64)

typedef void (*tile_fn)(const cell *c, int64_t row, int64_t column, int64_t n);

typedef struct job {
    cell cell;
    tile_fn tile;
} job;

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    for (int64_t row = begin; row < end; row++)
        for (int64_t column = 0; column < j->cell.size; column += TILE) {
            int64_t left = j->cell.size - column;
            j->tile(&j->cell, row, column, left < TILE ? left : TILE);
        }
}

/* `state` is an operand [B, H]. */
static tn_status run(const tn_launch_desc *launch, const tn_operand *state, tile_fn narrow,
                     tile_fn wide)
{
    job j = {{launch, state->sizes[0], state->sizes[1]},
             state->dtype == TN_FLOAT64 ? wide : narrow};
    tn_parallel_for(j.cell.batch, 1 + GRAIN / (j.cell.size + 1), run_rows, &j);
    return TN_OK;
}

tn_status TN_KERNEL(lstm_cell)(const tn_launch_desc *launch)
{
    return run(launch, tn_output(launch, 0), lstm_tile_f32, lstm_tile_f64);
}

tn_status TN_KERNEL(lstm_cell_backward)(const tn_launch_desc *launch)
{
    return run(launch, tn_output(launch, 1), lstm_backward_tile_f32, lstm_backward_tile_f64);
}

tn_status TN_KERNEL(gru_cell)(const tn_launch_desc *launch)
{
    return run(launch, tn_output(launch, 0), gru_tile_f32, gru_tile_f64);
}

tn_status TN_KERNEL(gru_cell_backward)(const tn_launch_desc *launch)
{
    return run(launch, tn_output(launch, 2), gru_backward_tile_f32, gru_backward_tile_f64);
}
