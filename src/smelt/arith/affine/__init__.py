"""Index maps: what sums of loop variables, their quotients and remainders say of each other.

    parse       an index as a sum of digits of iterators, or of sums of them
    maps        is a map injective, does it reach everything, what does it need as padding
    inverse     the iterators as expressions of the indices
    sums        which terms are equal where sums are: two places of an array, two iterations
    values      which values a sum takes, and how many

All of them rest on one law: where every term of a sum weighs at least what all lighter ones come
to, the sum tells its terms apart, as a number its digits.
"""
