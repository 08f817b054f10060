# type: ignore  (Warp compiles what stands here; to a type checker its arrays and vectors are other things)
"""Warp kernels of the coupled step; each is launched over worlds and learned dofs and touches no other."""

import warp as wp


@wp.kernel(enable_backward=False)
def difference(
    dofs: wp.array[int],
    of_robot: int,
    wanted: wp.array2d[float],
    trusted: wp.array2d[bool],
    reference: wp.array2d[float],
    # outputs
    change: wp.array2d[float],
):
    """What the prediction ``wanted`` [W, L] adds to ``reference`` [W, nv]; nothing where it is not trusted."""
    world, i = wp.tid()
    dof = dofs[i]
    if trusted[world, i // of_robot]:
        change[world, dof] = wanted[world, i] - reference[world, dof]
    else:
        change[world, dof] = 0.0


@wp.kernel(enable_backward=False)
def add(
    dofs: wp.array[int],
    change: wp.array2d[float],
    # outputs
    target: wp.array2d[float],
):
    world, i = wp.tid()
    dof = dofs[i]
    target[world, dof] = target[world, dof] + change[world, dof]


@wp.kernel(enable_backward=False)
def take(
    dofs: wp.array[int],
    source: wp.array2d[float],
    # outputs
    target: wp.array2d[float],
):
    world, i = wp.tid()
    target[world, dofs[i]] = source[world, dofs[i]]


@wp.kernel(enable_backward=False)
def sum_forces(
    actuator: wp.array2d[float],
    applied: wp.array2d[float],
    # outputs
    total: wp.array2d[float],
):
    world, dof = wp.tid()
    total[world, dof] = actuator[world, dof] + applied[world, dof]


@wp.kernel(enable_backward=False)
def advance_undamped(
    timestep: wp.array[float],
    dofs: wp.array[int],
    qpos_of: wp.array[int],
    of_robot: int,
    trusted: wp.array2d[bool],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    qacc: wp.array2d[float],
    # outputs
    next_qpos: wp.array2d[float],
    next_qvel: wp.array2d[float],
):
    """The step of hinges and slides without damping, from the state before it; an untrusted robot keeps its own."""
    world, i = wp.tid()
    if not trusted[world, i // of_robot]:
        return
    dof = dofs[i]
    dt = timestep[world % timestep.shape[0]]
    velocity = qvel[world, dof] + qacc[world, dof] * dt
    next_qvel[world, dof] = velocity
    next_qpos[world, qpos_of[i]] = qpos[world, qpos_of[i]] + dt * velocity


@wp.kernel(enable_backward=False)
def own_constraints(
    dofs: wp.array[int],
    first_contact: int,
    sparse: bool,
    nefc: wp.array[int],
    kind: wp.array2d[int],
    rownnz: wp.array2d[int],
    rowadr: wp.array2d[int],
    colind: wp.array3d[int],
    jacobian: wp.array3d[float],
    force: wp.array2d[float],
    smooth: wp.array2d[float],
    # outputs
    total: wp.array2d[float],
):
    """Smooth forces and those of constraints that are no contacts (limits, friction, equalities), [W, nv]."""
    world, i = wp.tid()
    dof = dofs[i]
    value = smooth[world, dof]
    for row in range(wp.min(nefc[world], kind.shape[1])):
        if kind[world, row] < first_contact:
            if sparse:
                start = rowadr[world, row]
                for k in range(start, start + rownnz[world, row]):
                    if colind[world, 0, k] == dof:
                        value += jacobian[world, 0, k] * force[world, row]
            else:
                value += jacobian[world, row, dof] * force[world, row]
    total[world, dof] = value
