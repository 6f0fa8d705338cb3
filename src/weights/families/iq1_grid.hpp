// IQ1_S and IQ1_M: vectors of 8 numbers out of {-1, 0, 1} (digits 0, 1, 2), all moved by 1/8 up or down.
#pragma once

#include "weights/families/grid_search.hpp"
#include "weights/families/grids.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

struct TernaryBook {
  static constexpr auto kGrid = grid_of<2048, 8, 3>(
      "VVCFFCqACFFCFFDqGCiiiqBCqACFFCFFCCCRFVSFFAqACCCiYAACCC6AqAKi7qqCQq6CAICAKoKjCCKCAFFCFFCiACFFCFFCKCDCYCKCAqCC"
      "FFCFFCCSCVFCFFALCDKIKaCAqQCqqKKCi/KCIgCKAAqAChiqoACqACiCbiQu6iKIK7aii6qq6w36qr7uC6AuioryT7gkCICAiACqKqrCCKAC"
      "AoiSgL6OiAyKiCQgAFoqKiCCiEAFFCVFCCSCFFCVFCKCCMCq6AChCCCVCFFCiCCCVCFFCoCC4iqgACKSCACCCKKaiKAKrqCCFCCCCCDCFBEA"
      "FFCFFCKACFFAFFQKCCgiCqCChCDFFAFFCiCCFFCFFCiACAiqqAAISEriuiCq6GqqoCHACqACCgiICQIACCASACq6wqiqCDyi6Ki6af6iL6Gq"
      "SCrKqK3iKSEDqACSECEKKqCCqCCyMLqIi+qmgiOqCAgAAoCqICAIAC6iiKKK6CKgCKjC66Lu66/6iC6KiigiKgi6iCQoyIAD6Tq6e/+Ko6Sj"
      "+6366f/f/aef66da7fy//ai+Ske4KKCEq6rDEqKCyi6CC66/6SS6DCIBixCayjqCkuCACoCCIIuqSAgACqiCmCSyCmIkCiCAiCAjAOBACiAC"
      "Awmiqq6uCYqvKCqyCA4aX6C0ymOECChLq6NKVEdpEAgCCCgiCCCCBEKICqaO6KiMECaCAiBAKKqYCEIFEFFAFFCrCCFFCFFCqCCKqeoCSoCC"
      "FFCFFAKCCFFCFFAICAKQiKCAICACiigaK6GuqqKgAAiCCKOyiECCEBFFCFVCKCSFFCFFGqACqqiKACgCCFFCFFCqAAFFCFFCiDCiCqAGCqCC"
      "qKqqKC7iCogKqCCKCCoqKgCCoAQqIKgIg67CogLCKq7Sy66/6SK+uqKIShCa2CKMmDoCCgCCiomYACiCCoqqroq6imKoiiACQACoKKCAC6AA"
      "FFCFFCqCAFFCFFSqGAgSqKAClCAENQEFCiCCFFCFFAACCKIryDCAAAgqKgiC6Ci6iKAACiUCokOFAExSFFFAFFAqCAFFCFFCISCCIiiCAhAA"
      "FFAFFAqAAFFCFF");

  // In eighths, as everything that is searched here.
  static float level(int digit) { return static_cast<float>(8 * (digit - 1)); }
  static const Points<2048, 8>& points() {
    static const Points<2048, 8> all(kGrid, level);
    return all;
  }
};

// A vector and the way it is moved for 8 numbers; `moved` is the square of the distance.
KVASIR_INLINE float nearest_moved(const float* x, float by, int& n) {
  float y[8];
  for (int i = 0; i < 8; ++i) y[i] = x[i] - by;
  n = TernaryBook::points().nearest(y);
  float moved = 0.0f;
  for (int i = 0; i < 8; ++i) {
    const float off = y[i] - TernaryBook::level(TernaryBook::kGrid.digit(n, i));
    moved += off * off;
  }
  return moved;
}

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
