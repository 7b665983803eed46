"""Names for the array shapes that the groups speak about."""

from __future__ import annotations

from jaxtyping import Array, Float

Scalar = Float[Array, ""]
Vector3 = Float[Array, "3"]
Vector6 = Float[Array, "6"]
Matrix3 = Float[Array, "3 3"]
Pose = Float[Array, "3 4"]
Twists = Float[Array, "6 k"]
Quaternion = Float[Array, "4"]
Coordinates7 = Float[Array, "7"]
