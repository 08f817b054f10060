"""How robot and objects move together: coupled mode against the simulator, world by world, on the same actions."""
