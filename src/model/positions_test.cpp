// Where elements of a text stand, and what tells runs of rows from each other.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "model/rows.hpp"

namespace kvasir::model {
namespace {

std::shared_ptr<const RowBlock> block(const RowShape& shape) {
  return std::make_shared<const RowBlock>(store::Key{}, shape, [shape](RowWatch&) {
    std::vector<float> values(static_cast<std::size_t>((1 + shape.deep) * shape.count * shape.width));
    std::iota(values.begin(), values.end(), 0.0f);
    return values;
  });
}
std::shared_ptr<const RowBlock> plane(int height, int width) {
  return block({.count = std::int64_t{height} * width, .width = 1, .grid = {height, width}});
}

// As transformers' get_rope_index counts them.
TEST(Positions, HaveThreeParts) {
  const std::vector<RowRun> runs{
      {3, plane(2, 3)}, {11, plane(4, 1)}, {15, block({.count = 4, .width = 1})}, {20, plane(1, 5)}};
  const std::vector<Position> all{{0, 0, 0},    {1, 1, 1},    {2, 2, 2},  // text
                                  {3, 3, 3},    {3, 3, 4},    {3, 3, 5},    {3, 4, 3},    {3, 4, 4},
                                  {3, 4, 5},                                               // 2 x 3
                                  {6, 6, 6},    {7, 7, 7},                                 // text
                                  {8, 8, 8},    {8, 9, 8},    {8, 10, 8},   {8, 11, 8},    // 4 x 1
                                  {12, 12, 12}, {13, 13, 13}, {14, 14, 14}, {15, 15, 15},  // rows that lie nowhere
                                  {16, 16, 16},                                            // text
                                  {17, 17, 17}, {17, 17, 18}, {17, 17, 19}, {17, 17, 20}, {17, 17, 21},  // 1 x 5
                                  {22, 22, 22}, {23, 23, 23}};                                           // text
  for (std::size_t at = 0; at < all.size(); ++at)
    EXPECT_EQ(position_of(runs, static_cast<std::int64_t>(at)), all[at]) << at;
  EXPECT_EQ(position_of({}, 7), (Position{7, 7, 7}));
  EXPECT_EQ(run_at(runs, 14).begin, 11);
  EXPECT_THROW(run_at(runs, 9), std::logic_error);
}

TEST(RowBlock, HasRowsForLayers) {
  const auto b = block({.count = 2, .width = 3, .deep = 2});
  EXPECT_EQ(b->row(1)[0], 3);
  EXPECT_EQ(b->deep_row(0, 0)[0], 6);
  EXPECT_EQ(b->deep_row(1, 1)[2], 17);
}

// The same content.
TEST(RowBlock, IsAnotherOneWhereItLiesOtherwise) {
  std::set<std::int32_t> first;
  for (const Grid grid : {Grid{}, Grid{2, 6}, Grid{6, 2}, Grid{3, 4}, Grid{1, 12}})
    for (const int deep : {0, 1, 2})
      first.insert(block({.count = 12, .width = 1, .grid = grid, .deep = deep})->ids()[0]);
  EXPECT_EQ(first.size(), 15u);
  EXPECT_THROW(block({.count = 12, .width = 1, .grid = {3, 3}}), std::logic_error);
}

}  // namespace
}  // namespace kvasir::model
